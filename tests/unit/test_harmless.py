from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from made_recordings import Training, make_recording
from slowstep.document.validity import validate
from slowstep.harmless import for_shell, harmless, without_surrogates
from slowstep.report.canvas import ASCII, UNICODE, printable
from slowstep.report.html import render_block
from slowstep.report.terminal import render
from slowstep.workflow.diagnose_recordings import diagnose_recording


@pytest.mark.slow
def test_nothing_that_is_obeyed_is_left_of_any_character():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for text in (harmless(every), printable(every, UNICODE), printable(every, ASCII)):
        assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("save (train.py:3)", "save (train.py:3)"),
        ("größe · 訓練 é\u00a0x", "größe · 訓練 é\u00a0x"),
        ("a\x1b]0;title\x07", "a\\x1b]0;title\\x07"),
        ("a\u202egpj.exe", "a\\u202egpj.exe"),
        ("\udcfcber", "\\xfcber"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("two\nlines", "two\\x0alines"),
    ],
)
def test_what_would_be_obeyed_stands_as_its_escape(text, shown):
    assert harmless(text) == shown


def test_lines_are_kept_where_they_are_asked_for():
    assert harmless("two\nlines\x1b", lines=True) == "two\nlines\\x1b"


@pytest.mark.parametrize("shown", [harmless, without_surrogates])
def test_text_that_the_locale_kept_as_bytes_is_shown_as_text(shown):
    text = "größe 訓練".encode().decode("ascii", "surrogateescape")
    assert shown(f"{text} \udcff") == "größe 訓練 \\xff"


@pytest.mark.parametrize(
    "name", ["plain.py", "sp ace ünï", "b\u202e\udcffx.py", "it's\x1b\\n\udcff", "two\nlines", "", "~", "a\u00a0b", "\udcc3\udcbc"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_word_for_the_shell_is_harmless_and_gives_the_same_bytes_again(name, encoding, monkeypatch):
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: encoding)

    typed = for_shell(["printf", "%s", name])

    assert harmless(typed) == typed
    typed.encode(encoding)
    printed = subprocess.run(["bash", "-c", typed.encode()], capture_output=True, check=True).stdout
    assert printed == name.encode("utf-8", "surrogateescape")


def test_surrogates_are_escaped_in_names_and_values():
    value = {"\udcfc": ["\udc80", {"a": "b\ud800"}], "n": 1, "none": None}
    assert without_surrogates(value) == {"\\xfc": ["\\x80", {"a": "b\\ud800"}], "n": 1, "none": None}


@pytest.mark.parametrize("name", ["t\udcfcr.py", "t\ud800.py", "t\u202e\u2066.py", "t\x1b]0;x\x07.py", "t\u0000.py"])
def test_a_recording_of_names_that_are_no_text_is_read_and_shown(tmp_path, name):
    folder = make_recording(tmp_path / "recording", Training(steps=100, after_ms=8.0))
    for notes in folder.glob("*.jsonl"):
        notes.write_text(notes.read_text().replace("train.py", json.dumps(name)[1:-1]).replace("save_mask_images", json.dumps(name)[1:-1]))

    report = diagnose_recording(folder)

    validate(json.loads(json.dumps(report)))
    assert report["verdict"]["rule"] == "slow-callback"
    for shown in (render(report, width=100, color=False), render_block(report, width=100)):
        assert not {"Cc", "Cf", "Cs"} & set(map(unicodedata.category, shown.replace("\n", "")))
        shown.encode()
