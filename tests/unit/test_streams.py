"""What is written to a stream is what it can show."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from few import few
from slowstep.report.streams import takes_unicode, write_plainly

REPORT = Path(__file__).parents[1] / "data" / "reports" / "bottleneck.json"
LOCALE = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONCOERCECLOCALE")
WORDS = {"analyze": ["analyze", str(REPORT)], "compare": ["compare", str(REPORT), str(REPORT)], "explain": ["explain"], "help": ["-h"]}


@pytest.fixture(autouse=True)
def no_locale(monkeypatch):
    for name in LOCALE:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("asked", "unicode"),
    [
        ({}, True),
        ({"LC_ALL": "C"}, False),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "", "LANG": "C"}, False),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}, True),
    ],
)
def test_whoever_asks_for_the_c_locale_gets_ascii(monkeypatch, asked, unicode):
    for name, value in asked.items():
        monkeypatch.setenv(name, value)

    assert takes_unicode(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) is unicode
    assert not takes_unicode(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))


def test_what_an_encoding_lacks_is_escaped_and_what_it_has_is_kept():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1")

    write_plainly(stream, None)

    stream.write("caf\u00e9 \u2588")
    stream.flush()
    assert raw.getvalue() == b"caf\xe9 \\u2588"


@pytest.mark.parametrize("words", few(WORDS.values(), every=2), ids=WORDS)
def test_every_page_is_ascii_in_the_c_locale(words):
    environment = dict(os.environ) | {"LC_ALL": "C", "COLUMNS": "80"}

    done = subprocess.run([sys.executable, "-m", "slowstep", *words], env=environment, capture_output=True, timeout=60, check=True)

    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout
