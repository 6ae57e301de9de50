"""A first word that is no command of slowstep: what was meant is offered."""

from __future__ import annotations

import io

import pytest

from slowstep.cli.offer import meant_words, offered
from slowstep.errors import BadUsage

KNOWN = ("run", "analyze", "prove", "bench", "runs", "explain")


def options_of(name: str) -> frozenset[str]:
    return {"run": frozenset({"--steps", "--for"})}.get(name, frozenset())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("python", "torchrun"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "slowstep_runs").mkdir()
    (tmp_path / "trace.json.gz").touch()
    (tmp_path / "train").touch()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("train.py --lr 1", "run train.py --lr 1"),
        ("python train.py", "run python train.py"),
        ("torchrun train.py", "run torchrun train.py"),
        ("./train", "run ./train"),
        ("-m pkg.train", "run -m pkg.train"),
        ("--steps 5 train.py", "run --steps 5 train.py"),
        ("--for=5s train.py", "run --for=5s train.py"),
        ("slowstep_runs", "analyze slowstep_runs"),
        ("trace.json.gz", "analyze trace.json.gz"),
        ("analyse x", "analyze x"),
        ("porve train.py", "prove train.py"),
        ("record train.py", "run train.py"),
        ("RUN x.py", "run x.py"),
        ("Analyze", "analyze"),
        ("Record x.py", "run x.py"),
        ("ANALYSE x", "analyze x"),
        ("TRAIN.PY", "run TRAIN.PY"),
        ("help run", "run --help"),
        ("Help", "--help"),
        ("help", "--help"),
        ("ls", "runs"),
        ("serial_loader", "explain serial-loader"),
        ("workers", "explain workers"),
    ],
)
def test_what_was_meant_is_known(words: str, meant: str) -> None:
    assert meant_words(words.split(), KNOWN, options_of) == tuple(meant.split())


@pytest.mark.parametrize("words", ["xyzzy", "--bogus", "-m"])
def test_what_nobody_can_mean_is_not_guessed(words: str) -> None:
    assert meant_words(words.split(), KNOWN, options_of) is None


@pytest.mark.parametrize("words", [(), ("run", "x.py"), ("--help",), ("-V",), ("--bogus",)])
def test_what_can_be_obeyed_or_is_explained_elsewhere_is_left_alone(words: tuple[str, ...]) -> None:
    assert offered(words, KNOWN, options_of, source=Terminal("y\n"), screen=Terminal()) is None


def test_where_nobody_is_there_to_be_asked_the_command_is_said_as_it_can_be_pasted() -> None:
    with pytest.raises(BadUsage, match=r"slowstep run 'my train\.py' --lr 1$") as refused:
        offered(("my train.py", "--lr", "1"), KNOWN, options_of, source=io.StringIO("y\n"), screen=Terminal())
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_who_agrees_gets_what_was_meant(answer: str) -> None:
    screen = Terminal()

    assert offered(("train.py",), KNOWN, options_of, source=Terminal(answer), screen=screen) == ("run", "train.py")
    assert "slowstep run train.py" in screen.getvalue()


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "what?\n"])
def test_without_a_yes_nothing_is_run(answer: str) -> None:
    with pytest.raises(BadUsage):
        offered(("train.py",), KNOWN, options_of, source=Terminal(answer), screen=Terminal())
