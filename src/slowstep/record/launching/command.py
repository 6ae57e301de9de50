"""What the user typed after `slowstep run`, as a command that can be started."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slowstep.errors import CommandNotStarted
from slowstep.record.framework import training_modules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command ready to start: `words` as typed, `path` what is executed, `argv` what it is told, `stem` the short name of the run."""

    words: tuple[str, ...]
    path: str
    argv: tuple[str, ...]
    stem: str


def resolve_command(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    """The command for `train.py ...` and `-m pkg.train ...` (run by Python) or for anything else, as it is.

    Raises CommandNotStarted: 127 when there is no such command, 126 when it is not executable.
    """
    if words[0].endswith(".py"):
        _require_script(words[0])
        argv = (find_python(environ), *words)
    elif words[0] == "-m":
        argv = (find_python(environ), *words)
    else:
        argv = tuple(words)
    return Command(words=tuple(words), path=_find_executable(argv[0], environ), argv=argv, stem=run_stem(argv))


def find_python(environ: Mapping[str, str]) -> str:
    """The Python that the user means: that of the active environment, else slowstep's own if it has a framework, else the one on PATH."""
    on_path = environ.get("PATH")
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        found = shutil.which("python", path=on_path)
        if found:
            return found
    if any(importlib.util.find_spec(name) for name in training_modules()):
        return sys.executable
    return shutil.which("python", path=on_path) or shutil.which("python3", path=on_path) or sys.executable


def run_stem(argv: Sequence[str]) -> str:
    """The short name of a run: its script or module, else its command."""
    for before, word in zip(("", *argv), argv, strict=False):
        if before == "-m" and "python" in os.path.basename(argv[0]):
            return word
        if word.endswith(".py"):
            return os.path.basename(word)[: -len(".py")]
    return os.path.splitext(os.path.basename(argv[0]))[0]


def _require_script(script: str) -> None:
    if not os.path.exists(script):
        raise CommandNotStarted(
            f"there is no script {script!r} in {os.getcwd()}. Give the path of a Python script, `-m MODULE`, or a whole command.",
            exit_code=CommandNotStarted.NOT_FOUND,
        )


def _find_executable(word: str, environ: Mapping[str, str]) -> str:
    if os.sep in word:
        if not os.path.exists(word):
            raise _not_found(word)
        if os.path.isdir(word) or not os.access(word, os.X_OK):
            raise _not_executable(word)
        return word
    found = shutil.which(word, path=environ.get("PATH", os.defpath))
    if found:
        return found
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isfile(os.path.join(folder, word)):
            raise _not_executable(os.path.join(folder, word))
    hint = f" To run ./{word} write it with its folder." if os.path.isfile(word) else ""
    raise _not_found(word, hint)


def _not_found(word: str, hint: str = "") -> CommandNotStarted:
    return CommandNotStarted(
        f"there is no command {word!r}. Give a Python script, `-m MODULE`, or a command on PATH.{hint}",
        exit_code=CommandNotStarted.NOT_FOUND,
    )


def _not_executable(word: str) -> CommandNotStarted:
    return CommandNotStarted(
        f"{word!r} is not executable. Make it so (chmod +x), or name the program that runs it, as in `bash {word}`.",
        exit_code=CommandNotStarted.NOT_EXECUTABLE,
    )
