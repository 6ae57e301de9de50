"""What somebody probably meant whose first word is no command of slowstep: most often a script, with `run` forgotten."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from slowstep.cli.plugin_texts import names_of_levers, names_of_rules

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
    if first == "help":
        return (rest[0], "--help") if rest and rest[0] in known else ("--help",)
    if first.startswith("-"):
        is_for_run = first == "-m" or first.partition("=")[0] in options_of("run")
        return ("run", *words) if is_for_run and rest else None
    if first.endswith(_SCRIPT):
        return ("run", *words)
    if os.path.exists(first):
        is_read = os.path.isdir(first) or first.lower().endswith(_ANALYZED)
        return ("analyze" if is_read else "run", *words)
    if first in _SYNONYMS:
        return (*_SYNONYMS[first], *rest)
    if shutil.which(first) is not None:
        return ("run", *words)
    if close := difflib.get_close_matches(first, known, n=1):
        return (close[0], *rest)
    name = first.lower().replace("_", "-")
    return ("explain", name) if not rest and name in {*names_of_rules(), *names_of_levers()} else None
