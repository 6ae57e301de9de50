from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slowstep.errors import CommandNotStarted
from slowstep.record.launching import command
from slowstep.record.launching.command import find_python, resolve_command, run_stem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(path: Path, *, executable: bool = True) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755 if executable else 0o644)
    return path


def test_a_script_is_run_by_python_with_its_arguments_untouched(folder: Path) -> None:
    (folder / "train.py").touch()
    python = program(folder / "bin" / "python")

    resolved = resolve_command(["train.py", "--help", "-m"], {"PATH": str(python.parent), "VIRTUAL_ENV": "x"})

    assert resolved.argv == (str(python), "train.py", "--help", "-m")
    assert (resolved.path, resolved.stem) == (str(python), "train")


def test_a_module_is_run_by_python(folder: Path) -> None:
    python = program(folder / "bin" / "python")

    resolved = resolve_command(["-m", "pkg.train", "--lr", "1"], {"PATH": str(python.parent), "CONDA_PREFIX": "x"})

    assert resolved.argv == (str(python), "-m", "pkg.train", "--lr", "1")
    assert resolved.stem == "pkg.train"


def test_any_other_command_is_run_as_it_is(folder: Path) -> None:
    shell = program(folder / "bin" / "bash")

    resolved = resolve_command(["bash", "run.sh"], {"PATH": str(shell.parent)})

    assert (resolved.path, resolved.argv, resolved.stem) == (str(shell), ("bash", "run.sh"), "bash")


def test_without_an_environment_slowsteps_own_python_is_taken_where_it_has_a_framework(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(folder / "bin" / "python")

    assert find_python({"PATH": str(python.parent)}) == sys.executable

    monkeypatch.setattr(command, "training_modules", lambda: ("no_such_framework",))
    assert find_python({"PATH": str(python.parent)}) == str(python)


def test_python3_will_do_where_there_is_no_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python3 = program(folder / "bin" / "python3")
    monkeypatch.setattr(command, "training_modules", lambda: ("no_such_framework",))

    assert find_python({"PATH": str(python3.parent)}) == str(python3)


@pytest.mark.parametrize("words", [["no-such-command"], ["./no-such-command"], ["no_such_script.py"], [""]])
def test_a_command_that_does_not_exist_ends_with_127(folder: Path, words: list[str]) -> None:
    with pytest.raises(CommandNotStarted) as caught:
        resolve_command(words, {"PATH": str(folder)})

    assert caught.value.exit_code == 127


@pytest.mark.parametrize("words", [["tool"], ["./tool"], ["./folder"]])
def test_a_command_that_is_not_executable_ends_with_126(folder: Path, words: list[str]) -> None:
    program(folder / "tool", executable=False)
    (folder / "folder").mkdir()

    with pytest.raises(CommandNotStarted) as caught:
        resolve_command(words, {"PATH": str(folder)})

    assert caught.value.exit_code == 126


def test_a_missing_path_means_the_systems_default(folder: Path) -> None:
    assert os.path.basename(resolve_command(["sh"], {}).path) == "sh"


@pytest.mark.parametrize(
    ("argv", "stem"),
    [
        (("/usr/bin/python", "a/train.py", "x.py"), "train"),
        (("python3.11", "-u", "-m", "pkg.train"), "pkg.train"),
        (("./run.sh", "-m", "x"), "run"),
        (("torchrun", "--nproc", "2", "train.py"), "train"),
    ],
)
def test_a_run_is_named_after_its_script(argv: tuple[str, ...], stem: str) -> None:
    assert run_stem(argv) == stem
