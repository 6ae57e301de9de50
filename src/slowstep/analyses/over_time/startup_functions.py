"""What a script does before it trains, by stacks: which imports, which of its functions, and compiling."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np

from slowstep.analyses.over_time.startup_parts import StartupKind
from slowstep.analyses.python.functions import FEWEST_STACKS, Path, Stacks, inside, is_library, shown
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code

# Where a compiled model is called before anything of the training is recorded, nothing else tells that it is compiled.
COMPILER = code(Code.COMPILER)
# Functions in its files that do not compile: what is imported for other uses too, and what runs a graph that was compiled before.
NOT_COMPILING = re.compile(r"^<module>$|(^|\.)(run|__call__)$")
# The interpreter's own code that finds and runs modules.
IMPORTING = re.compile(r"^<frozen importlib\._bootstrap")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_STANDARD = re.compile(r"[/\\]lib(?:64)?[/\\]python\d+(?:\.\d+)?[/\\](?:lib-dynload[/\\])?(\w+)")
# Of the stretch: what takes less is not worth a line of its own.
NAMED_SHARE = 0.10


class Held(NamedTuple):
    """What held a stretch: a function of the script's, as the ledger calls it, the import of a library, or compiling."""

    kind: StartupKind
    of: str | None = None


# What has no name of its own.
NOWHERE: Final = Held(StartupKind.OTHER_WORK)
# The functions that lead to a stack, the outermost first, and the library that is being imported at its end.
_Way = tuple[Held, ...]


def divide_startup(stacks: Stacks, script: str | None, start_ns: int, end_ns: int) -> dict[Held, float]:
    """Share of the stretch by what was done in it, the largest first. Empty where too few stacks tell.

    Each stack counts for the deepest of the functions that lead to it that holds NAMED_SHARE of the stretch.
    """
    taken = inside(stacks, np.array([start_ns]), np.array([end_ns])).tolist()
    if len(taken) < FEWEST_STACKS:
        return {}
    ways = [(weight, _way(path, script)) for weight, path in stacks.paths(taken)]
    whole = sum(weight for weight, _ in ways)
    held: dict[_Way, float] = defaultdict(float)
    for weight, way in ways:
        for depth in range(1, len(way) + 1):
            held[way[:depth]] += weight
    named: dict[Held, float] = defaultdict(float)
    for weight, way in ways:
        heavy = (way[:depth] for depth in range(len(way), 0, -1) if held[way[:depth]] >= NAMED_SHARE * whole)
        deepest = next(heavy, (NOWHERE,))
        named[deepest[-1]] += weight / whole
    return dict(sorted(named.items(), key=lambda each: -each[1]))


def _way(path: Path, script: str | None) -> _Way:
    """The user's functions that lead to a stack, as the ledger calls functions, and what is imported below them.

    A compiler runs modules that it has written: they are no code of the user's, wherever they lie.
    """
    if any(COMPILER.search(frame.file) and not NOT_COMPILING.search(frame.function) for frame in path):
        return (Held(StartupKind.COMPILING),)
    way: list[Held] = []
    last = -1
    for at, frame in enumerate(path):
        if is_library(frame) or (frame.function.endswith(">") and frame.function != "<module>"):
            continue
        last = at
        file = shown(frame.file, script)
        if frame.function == "<module>":
            way.append(Held(StartupKind.TOP_LEVEL, file))
        else:
            way.append(Held(StartupKind.FUNCTION, f"{frame.function} ({file}:{frame.first_line})"))
    imported = _imported(path[last + 1 :])
    return tuple(way) if imported is None else (*way, imported)


def _imported(path: Path) -> Held | None:
    """The library whose import a path below the user's last frame stands in."""
    at = next((index for index, frame in enumerate(path) if IMPORTING.match(frame.file)), None)
    if at is None:
        return None
    modules = (frame for frame in path[at:] if frame.function == "<module>")
    package = next((match[1] for frame in modules if (match := _INSTALLED.search(frame.file) or _STANDARD.search(frame.file))), None)
    return Held(StartupKind.IMPORT, package)
