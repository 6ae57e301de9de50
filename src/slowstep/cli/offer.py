"""A command line whose first word is no command of ours: the one that was probably meant is offered, and run where somebody agrees."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TextIO

from slowstep.cli import VERSION_OPTIONS
from slowstep.cli.first_word import meant_words
from slowstep.errors import BadUsage

_YES: Final = ("y", "yes")
# What slowstep itself takes.
_OWN_OPTIONS: Final = (*VERSION_OPTIONS, "-h", "--help")


def offered(
    words: Sequence[str],
    known: Sequence[str],
    options_of: Callable[[str], AbstractSet[str]],
    *,
    source: TextIO | None = None,
    screen: TextIO | None = None,
) -> tuple[str, ...] | None:
    """The words that were meant instead, where the user agreed to them; None where the words can be obeyed as they are.

    Raises BadUsage, with the command to type, where nobody is there to be asked, or says no.
    """
    if not words or words[0] in (*known, *_OWN_OPTIONS):
        return None
    meant = meant_words(words, known, options_of)
    if meant is None:
        if words[0].startswith("-"):
            return None
        raise BadUsage(f"there is no command {words[0]!r}. slowstep --help lists the commands; slowstep run {words[0]} ... records one.")
    command = shlex.join(("slowstep", *meant))
    what = f"{words[0]} is no option of slowstep" if words[0].startswith("-") else f"there is no command {words[0]!r}"
    source, screen = source or sys.stdin, screen or sys.stderr
    if source is None or screen is None or not (source.isatty() and screen.isatty()):
        raise BadUsage(f"{what}. Did you mean: {command}")
    screen.write(f"slowstep: {what}. Did you mean: {command}\nRun that now? [y/N] ")
    screen.flush()
    if source.readline().strip().lower() not in _YES:
        raise BadUsage("nothing was run.")
    return meant
