"""What a module is called: by the script, where it stands among the names of a file, else by its class and its way from there."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterable, Iterator
from types import FrameType
from typing import Any, Final

# More modules than large models have, and more frames than a trainer lays on one another.
_MOST_MODULES: Final = 20_000
_MOST_FRAMES: Final = 60
# From there on to read a function's variables leaves nothing behind (PEP 667); before, it keeps what they were.
_READS_LOCALS: Final = sys.version_info >= (3, 13)


def find_name(frame: FrameType | None, wanted: Collection[int], held: Collection[int]) -> str | None:
    """The module with most of the `wanted` parameters (by id()) and none of the `held`, as files or functions on the way to the frame call
    it (`model.backbone`), else by the class of what it is a part of (`Net.backbone`); None where there is none.
    """
    return _best(_named(frame), wanted, held) or _best(_roots(), wanted, held)


def _best(named: Iterable[tuple[str, Any]], wanted: Collection[int], held: Collection[int]) -> str | None:
    best: tuple[int, str | None] = (0, None)
    for name, module in named:
        for path, parameters in _outermost(name, module, held):
            # The first is the nearest one.
            best = max(best, (len(parameters.intersection(wanted)), path), key=lambda each: each[0])
    return best[1]


def _roots() -> Iterator[tuple[str, Any]]:
    """All modules of the process that are no part of another; some 50 ms of a large one, once."""
    module: Any = sys.modules["torch"].nn.Module
    things = gc.get_objects()
    kinds = {kind for kind in set(map(type, things)) if issubclass(kind, module)}
    modules = [each for each in things if type(each) in kinds]
    parts = {id(inner) for each in modules for inner in vars(each).get("_modules", {}).values()}
    yield from ((type(each).__name__, each) for each in modules if id(each) not in parts)


def _named(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    module: Any = sys.modules["torch"].nn.Module
    seen = set[int]()
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        spaces = [frame.f_globals, *([dict(frame.f_locals)] if _READS_LOCALS else [])]
        for name, value in [each for space in spaces for each in list(space.items())]:
            for path, found in ((name, value), *_attributes(name, value, module)):
                if issubclass(type(found), module) and id(found) not in seen:
                    seen.add(id(found))
                    yield path, found
        frame = frame.f_back


def _attributes(name: str, value: Any, module: Any) -> Iterator[tuple[str, Any]]:
    """Of a `self` those that it keeps: a trainer's teacher."""
    if name == "self" and not issubclass(type(value), module):
        yield from ((f"self.{key}", each) for key, each in list(getattr(value, "__dict__", {}).items()))


def _outermost(name: str, module: Any, held: Collection[int]) -> Iterator[tuple[str, set[int]]]:
    """Modules none of whose parameters is held, and that are in no other such one; read past their own attribute access."""
    left = [(name, module)]
    for _ in range(_MOST_MODULES):
        if not left:
            return
        path, each = left.pop()
        parameters = _parameters(each)
        if not parameters:
            continue
        if parameters.isdisjoint(held):
            yield path, parameters
        else:
            left += [(f"{path}.{key}", inner) for key, inner in vars(each).get("_modules", {}).items() if inner is not None]


def _parameters(module: Any) -> set[int]:
    found, left, seen = set[int](), [module], set[int]()
    while left and len(seen) < _MOST_MODULES:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        own = vars(each)
        found |= {id(parameter) for parameter in own.get("_parameters", {}).values() if parameter is not None}
        left += [inner for inner in own.get("_modules", {}).values() if inner is not None]
    return found
