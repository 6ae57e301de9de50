"""The command line as a whole: mistakes, help, exit codes, and what is imported for which command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slowstep.cli import commands
from slowstep.cli.commands import obey
from slowstep.errors import SlowstepError

HEAVY = ["polars", "numpy", "msgspec", "torch", "slowstep.analyses", "slowstep.timeline", "slowstep.prove", "slowstep.workflow"]
PROBE = """
import json, sys
sys.argv = ["slowstep", *json.loads(sys.argv[1])]
from slowstep.cli.main import main
try:
    main()
except SystemExit:
    pass
print(json.dumps([name for name in json.loads(sys.stdin.read()) if name in sys.modules]))
"""


@pytest.mark.parametrize("words", [[], ["-h"], ["run", "-h"], ["compare", "-h"]], ids=" ".join)
def test_help_is_plain_text(words, capsys):
    obey(words)

    ended = capsys.readouterr()
    shown = ended.out + ended.err
    assert "Usage:" in shown
    assert shown.replace("\n", "").isprintable()
    assert "\\x" not in shown


def brought(*words: str, of: list[str]) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(words)], input=json.dumps(of), capture_output=True, text=True, timeout=60, check=True
    )
    return list(json.loads(ended.stdout.splitlines()[-1]))


def refused(*words: str) -> tuple[str, int]:
    with pytest.raises(SlowstepError) as error:
        obey(list(words))
    return str(error.value), error.value.exit_code


@pytest.mark.parametrize("words", [("--help",), ("explain", "serial-loader"), ("train.py",)])
def test_what_only_prints_a_text_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    assert brought(*words, of=HEAVY) == []


# What takes a second to import: the answer to what is refused, or only says how to ask, is there before.
MEASURING = ["polars", "numpy", "torch", "slowstep.analyses.measurements", "slowstep.diagnosis.engine"]


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "nope"),
        ("analyze",),
        ("analyze", "--memory", "much", "nope"),
        ("analyze", "--export", "perfetto", "nope"),
        ("runs",),
        ("compare", "nope", "nope"),
        ("compare", "--fail-above", "much", "nope", "nope"),
        ("bench", "train.py"),
        ("bench", "data", "--budget", "much", "train.py"),
        ("prove", "--precision", "much", "train.py"),
        *((name, "--help") for name in commands._HOMES),
        ("bench", "data", "--help"),
    ],
    ids=" ".join,
)
def test_what_is_refused_or_asks_for_help_waits_for_nothing_that_measures(words: tuple[str, ...], tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert brought(*words, of=MEASURING) == []


def test_the_second_of_two_runs_is_looked_for_before_the_first_is_read(tmp_path) -> None:
    assert brought("compare", str(tmp_path), "nope", of=MEASURING) == []


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_said_without_the_parser_of_command_lines(option: str) -> None:
    assert brought(option, of=[*HEAVY, "typer", "rich", "slowstep.cli.commands"]) == []


def test_the_probe_sees_what_an_analysis_imports() -> None:
    assert "polars" in brought("analyze", str(Path(__file__).parent), of=HEAVY)


@pytest.mark.parametrize("name", list(commands._HOMES))
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_help_under_both_names(name: str, option: str, capsys) -> None:
    assert obey([name, option]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: slowstep {name}")
    assert "..." not in said.replace("COMMAND...", "").replace("[PATH]...", "").replace("[ARGS]...", "")
    assert "<" not in said


@pytest.mark.parametrize("words", [(), *((name,) for name in commands._HOMES), ("bench", "data"), ("bench", "compute")], ids=" ".join)
@pytest.mark.parametrize("width", [20, 40, 51])
def test_help_fits_a_narrow_terminal_and_says_as_much(words: tuple[str, ...], width: int, capsys, monkeypatch) -> None:
    obey([*words, "--help"])
    usual = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", str(width))

    obey([*words, "--help"])

    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= max(width, 40)
    # At a hyphen a word may be broken.
    assert "".join(said.split()) == "".join(usual.split())


def test_summaries_are_whole_and_commands_stand_in_the_order_in_which_they_are_met(capsys) -> None:
    assert obey(["--help"]) == 0

    listed = [line.split()[0] for line in capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()]
    assert listed == ["run", "analyze", "prove", "bench", "compare", "demo", "runs", "explain"]


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["run", "--steps", "0", "x.py"], "--steps 0: give a whole number, 1 or more.", 125),
        (["run", "--steps", "many", "x.py"], "--steps many: give a whole number, 1 or more.", 125),
        (["run", "--level", "9", "x.py"], "--level 9: give a whole number, from 0 to 2.", 125),
        (["prove", "--seed", "-1", "x.py"], "--seed -1: give a whole number, 0 or more.", 2),
        (["analyze", "--rank", "-1", "x"], "--rank -1: give a whole number, 0 or more.", 2),
    ],
)
def test_a_number_that_cannot_be_meant_is_said_with_its_option(words: list[str], text: str, code: int) -> None:
    assert refused(*words) == (text, code)


@pytest.mark.parametrize(
    ("words", "said", "unsaid", "code"),
    [
        (["run", "--bogus", "x.py"], "slowstep run --help", "--out", 125),
        (["run", "--stpes", "5", "x.py"], "--steps", "--out", 125),
        (["bench", "data", "--buget", "5s", "x.py"], "--budget", "--out", 2),
        (["run", "--steps"], "--steps needs a value", "Usage", 125),
        (["run"], "slowstep run train.py", "Usage", 125),
        (["prove"], "slowstep prove train.py", "Usage", 2),
        (["analyze", "--step"], "--step needs a value", "Usage", 2),
        (["run", "--FOR", "5s", "x.py"], "Did you mean --for?", "--out", 125),
        (["runs", "-H"], "Did you mean -h?", "Usage", 2),
        (["demo", "x", "y"], "slowstep demo takes no 'x y'", "Usage", 2),
    ],
)
def test_a_mistake_in_options_is_one_line_that_says_what_to_type(words: list[str], said: str, unsaid: str, code: int, capsys) -> None:
    assert obey(words) == code

    err = capsys.readouterr().err
    assert err.startswith("slowstep: ")
    assert err.count("\n") == 1
    assert said in err
    assert unsaid not in err
