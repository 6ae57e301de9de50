"""Where our options end and the user's command begins."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from slowstep.cli.bench import app as bench
from slowstep.cli.run import app
from slowstep.errors import BadUsage, CommandNotStarted


def parsed(*words: str) -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    return dict(command.make_context("run", list(words)).params)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "captured"),
    [
        (["--capture", "train.py", "--capture", "5-9"], "31-35"),
        (["--capture=5-9", "train.py", "--capture", "5-9"], "5-9"),
        (["--capture", "5-9", "train.py", "--capture", "5-9"], "5-9"),
        (["--steps", "60", "--capture", "5-9", "--level", "0", "--", "train.py", "--capture", "5-9"], "5-9"),
    ],
)
def test_steps_to_capture_may_be_a_word_of_their_own(words: list[str], captured: str) -> None:
    params = parsed(*words)

    assert params["capture"] == captured
    assert params["command"] == ["train.py", "--capture", "5-9"]


def test_a_command_that_looks_like_steps_is_the_users(tmp_path, monkeypatch) -> None:
    (tmp_path / "5-9").write_text("#!/bin/sh\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "6-8").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "6-8").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert parsed("--capture", "5-9", "7")["command"] == ["5-9", "7"]
    assert parsed("--capture", "6-8", "7")["command"] == ["6-8", "7"]


def test_the_words_of_a_script_are_not_looked_at() -> None:
    assert parsed("train.py", "--capture", "5-9")["capture"] is None
    assert parsed("--capture", "--", "5-9")["command"] == ["5-9"]


def test_a_single_number_is_no_command_and_the_option_says_what_is_missing(capsys) -> None:
    command: Any = typer.main.get_command(app)
    with pytest.raises(CommandNotStarted, match=r"--capture=31: give the first and the last step"):
        command.main(["--capture", "31", "train.py"], standalone_mode=False)


@pytest.mark.parametrize(
    "options",
    [["--steps", "50", "--warmup", "50"], ["--steps", "30", "--capture"], ["--steps", "30", "--capture", "29-31"]],
    ids=" ".join,
)
def test_options_that_leave_nothing_to_look_at_are_refused_before_the_command_starts(options: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    with pytest.raises(CommandNotStarted, match=r"^--steps \d+ "):
        command.main([*options, "train.py"], standalone_mode=False)


@pytest.mark.parametrize("words", [["slowstep", "prove", "train.py"], ["-m", "slowstep", "run", "train.py"], ["/opt/bin/slowstep", "run"]])
def test_slowstep_itself_is_no_command_to_look_at(words: list[str]) -> None:
    with pytest.raises(Exception, match="is slowstep itself"):
        parsed("--level", "0", *words)


def test_a_folder_or_a_script_of_that_name_is_the_users(tmp_path) -> None:
    (tmp_path / "slowstep").mkdir()

    assert parsed("slowstep")["command"] == ["slowstep"]
    assert parsed("slowstep.py", "slowstep")["command"] == ["slowstep.py", "slowstep"]


BOTH = "slowstep bench data {0} measures its loader alone, slowstep bench compute {0} its compute alone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("python train.py", f"which half? {BOTH.format('python train.py')}"),
        ("train.py", f"which half? {BOTH.format('train.py')}"),
        ("data.py --fast", f"which half? {BOTH.format('data.py --fast')}"),
        ("-m pkg.train", f"which half? {BOTH.format('-m pkg.train')}"),
        ("--budget 30s train.py", f"which half? {BOTH.format('--budget 30s train.py')}"),
        ("foo train.py", f"there is no half 'foo', and no such command: {BOTH.format('train.py')}"),
        ("foo", f"there is no half 'foo', and no such command: {BOTH.format('train.py')}"),
        ("DATA train.py", "there is no half 'DATA'. Did you mean: slowstep bench data train.py"),
        ("dat train.py", "there is no half 'dat'. Did you mean: slowstep bench data train.py"),
        ("compuet train.py", "there is no half 'compuet'. Did you mean: slowstep bench compute train.py"),
        ("loader", "there is no half 'loader'. Did you mean: slowstep bench data"),
    ],
    ids=lambda text: text.partition("?")[0][:30],
)
def test_bench_without_one_of_its_halves_says_what_was_probably_meant(words: str, said: str) -> None:
    group: Any = typer.main.get_command(bench)

    with pytest.raises(BadUsage) as refused:
        group.main(words.split(), standalone_mode=False)
    assert str(refused.value) == said
