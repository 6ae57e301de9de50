"""A command line whose first word is no command of ours: the one that was probably meant is offered, and run where somebody agrees."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TextIO

from slowstep.cli import VERSION_OPTIONS
from slowstep.cli.plugin_texts import names_of_levers, names_of_rules
from slowstep.close_names import close_names
from slowstep.errors import BadUsage
from slowstep.harmless import for_shell

_SCRIPT: Final = ".py"
# What `slowstep analyze` may read; whether it can, it says itself.
_ANALYZED: Final = (".json", ".json.gz", ".gz", ".sqlite", ".pb", ".nsys-rep")
# What other tools call it.
_SYNONYMS: Final = {
    "record": ("run",),
    "profile": ("run",),
    "exec": ("run",),
    "report": ("analyze",),
    "show": ("analyze",),
    "last": ("analyze", "last"),
    "diagnose": ("analyze",),
    "list": ("runs",),
    "ls": ("runs",),
    "history": ("runs",),
    "experiment": ("prove",),
    "benchmark": ("bench",),
    "rules": ("explain",),
    "levers": ("explain",),
    "version": ("--version",),
}


def meant_words(words: Sequence[str], known: Sequence[str], options_of: Callable[[str], AbstractSet[str]]) -> tuple[str, ...] | None:
    """The command line that was probably meant; None where nothing like it is known. `known` are the commands of slowstep."""
    first, rest = words[0], tuple(words[1:])
    if first.lower() == "help":
        return (rest[0], "--help") if rest and rest[0] in known else ("--help",)
    if first.startswith("-"):
        is_for_run = first == "-m" or first.partition("=")[0] in options_of("run")
        return ("run", *words) if is_for_run and rest else None
    if first.lower().endswith(_SCRIPT):
        return ("run", *words)
    if os.path.exists(first):
        is_read = os.path.isdir(first) or first.lower().endswith(_ANALYZED)
        return ("analyze" if is_read else "run", *words)
    # However it is written: RUN, Analyze.
    word = first.lower()
    if word in known:
        return (word, *rest)
    if word in _SYNONYMS:
        return (*_SYNONYMS[word], *rest)
    if shutil.which(first) is not None:
        return ("run", *words)
    if close := close_names(word, known, most=1):
        return (close[0], *rest)
    name = word.replace("_", "-")
    return ("explain", name) if not rest and name in {*names_of_rules(), *names_of_levers()} else None


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
        raise BadUsage(
            f"there is no command {words[0]!r}. slowstep --help lists the commands; slowstep run {for_shell(words[:1])} ... records one."
        )
    command = for_shell(("slowstep", *meant))
    what = f"{words[0]} is no option of slowstep" if words[0].startswith("-") else f"there is no command {words[0]!r}"
    if not _agreed(f"{what}. Did you mean: {command}", source or sys.stdin, screen or sys.stderr):
        raise BadUsage("nothing was run.")
    return meant


def _agreed(question: str, source: TextIO | None, screen: TextIO | None) -> bool:
    """Whether somebody says yes. Raises BadUsage, with what would be asked, where nobody is there."""
    if source is None or screen is None or not (source.isatty() and screen.isatty()):
        raise BadUsage(question)
    screen.write(f"slowstep: {question}\nRun that now? [y/N] ")
    screen.flush()
    return source.readline().strip().lower() in _YES
