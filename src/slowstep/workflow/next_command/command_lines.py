"""What all of them share: command lines of scripts as they can be typed again.

They are quoted for the shell, have a mark where a secret was not recorded, and ask again for what was asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from slowstep.command_words import explain
from slowstep.document.next_step import NextStep
from slowstep.harmless import for_shell
from slowstep.record.launching.folder import as_typed
from slowstep.record.system.redact import HIDDEN

# A word that needs no quotes, and with which no service lets anybody in.
FILL_IN: Final = "FILL_IN"


def to_paste(words: Sequence[str]) -> str:
    """The words of a recorded command for a shell; each secret that is left out of recordings is to be filled in."""
    return for_shell(word.replace(HIDDEN, FILL_IN) for word in words)


def filled_in(command: str | None, first: str | None) -> str | None:
    """What is to be done before a command, with the secrets that are to be filled in; None where nothing is."""
    if command is None or FILL_IN not in command:
        return first
    return ", and ".join(filter(None, (first, f"put the secret in place of {FILL_IN}: it was not recorded")))


def of_script(command: str | None, first: str | None = None) -> NextStep:
    """The step of a command that starts the training's script: one of `run` and `prove`; None where that is not known."""
    return NextStep(first=first, command=command, starts_script=command is not None)


def from_its_folder(step: NextStep) -> NextStep:
    """With a command that starts a script from the folder in which that was started, where it is another one than this and still there."""
    command, folder = step.command, step.folder
    if command is None or folder is None or not step.starts_script:
        return step
    is_elsewhere = os.path.isdir(folder) and os.path.realpath(folder) != os.path.realpath(os.curdir)
    return replace(step, command=f"{for_shell(('cd', folder))} && {command}") if is_elsewhere else step


def or_explained(step: NextStep, *, state: str, rule: str | None) -> NextStep:
    """The step; where nothing is to be typed the rule of a verdict that is not open is explained."""
    if step.command is not None or rule is None or state == "undetermined":
        return step
    return replace(step, command=explain(rule))


def or_compared(paths: Sequence[Path]) -> str:
    """What else may have been meant where one of them is to be given alone: of two, `slowstep compare`. The end of a sentence."""
    if len(paths) != 2:
        return "."
    return f". To compare the two: {for_shell(('slowstep', 'compare', *map(as_typed, map(str, paths))))}"


def place_words(*, out: str | None, allow_writes: bool, sandbox: str | None) -> tuple[str, ...]:
    """The folder for recordings, leave to write, and the kind of sandbox: those of them that were given."""
    folder = () if out is None else ("--out", out)
    leave = ("--allow-writes",) if allow_writes else ()
    kind = () if sandbox is None else ("--sandbox", sandbox)
    return (*folder, *leave, *kind)


def budget_words(seconds: float) -> tuple[str, ...]:
    """The words that ask for a time, in whole seconds."""
    return ("--budget", f"{math.ceil(seconds)}s")


def precision_words(precision: float) -> tuple[str, ...]:
    """The words that ask for a precision."""
    return ("--precision", f"{precision * 100:g}%")
