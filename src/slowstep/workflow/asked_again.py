"""The words of a command line that ask for an experiment once more: where it runs, and for how long it measures."""

from __future__ import annotations

import math
from typing import Final

# For how long `slowstep prove` and `slowstep bench` measure where they are not told.
USUAL_BUDGET_S: Final = 60.0


def place_words(*, out: str | None, allow_writes: bool, sandbox: str | None) -> tuple[str, ...]:
    """The folder for recordings, leave to write, and the kind of sandbox: those of them that were given."""
    folder = () if out is None else ("--out", out)
    leave = ("--allow-writes",) if allow_writes else ()
    kind = () if sandbox is None else ("--sandbox", sandbox)
    return (*folder, *leave, *kind)


def budget_words(seconds: float) -> tuple[str, ...]:
    """The words that ask for a time, in whole seconds."""
    return ("--budget", f"{math.ceil(seconds)}s")
