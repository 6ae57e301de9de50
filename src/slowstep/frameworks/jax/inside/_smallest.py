"""The smallest array of what a function gives: it is asked whether the device has made it, as it stands for all of them.

A result may be a tree of hundreds, which takes longer to look through than a call. So where its smallest array stands, is kept for each
function: of its next result that is looked up alone.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from slowstep.frameworks.jax.inside._leaves import arrays, is_array, leaves_of
from slowstep.record.recorder import now

# An array that is kept until the next call, so that it can be asked: no more than this is held of the script's.
KEPT_BYTES: Final = 65536
# A hundredth of the time may be spent on looking through large results in which no path is known.
_ELAPSED_PER_COST: Final = 100
# What leads from a result to one of its arrays: of each part on the way its type, and what gives the next one.
_Path = tuple[tuple[type, Callable[[Any], Any]], ...]
_DEEPEST: Final = 16
# Those that are asked by a key without anything happening: a `defaultdict` would get what it lacks.
_BY_KEY: Final = (dict, OrderedDict)


class Looking:
    """What looking through results may take, of all functions together."""

    __slots__ = ("_affordable_ns",)

    def __init__(self) -> None:
        self._affordable_ns = 0

    def is_affordable(self, at_ns: int) -> bool:
        """Whether it may be done again."""
        return at_ns >= self._affordable_ns

    def took(self, began_ns: int, ended_ns: int) -> None:
        """It was done."""
        self._affordable_ns = ended_ns + _ELAPSED_PER_COST * (ended_ns - began_ns)


class Smallest:
    """That of each result of one function. What JAX says of an array's shape and type, its `aval`, is one object for all results of a
    compiled function: how large one is takes a microsecond to ask.
    """

    __slots__ = ("_aval", "_is_kept", "_looking", "_path")

    def __init__(self, looking: Looking) -> None:
        self._looking = looking
        self._path: _Path | None = None
        self._aval: Any = None
        self._is_kept = False

    def of(self, result: Any, *, at_any_cost: bool = False) -> Any:
        """That array itself where it is small, else a reference that does not keep it; None where there is none, or where to look for it
        would take too long. Raises what JAX does of a tree that it does not know.
        """
        # Another thread may find another one meanwhile.
        part, path = None, self._path
        if path is not None:
            try:
                part = result
                for kind, step in path:
                    part = step(part) if type(part) is kind else None
            except LookupError:
                part = None
            aval = getattr(part, "aval", None)
            if aval is not None and aval is self._aval:
                return part if self._is_kept else weakref.ref(part)
        if part is None or not is_array(part):
            part = self._found(result, at_any_cost=at_any_cost)
        if part is None:
            return None
        self._aval, self._is_kept = getattr(part, "aval", None), _bytes(part) <= KEPT_BYTES
        return part if self._is_kept else weakref.ref(part)

    def _found(self, result: Any, *, at_any_cost: bool) -> Any:
        # Losses stand beside the rest.
        beside = result if isinstance(result, tuple) else (result,)
        found = min((each for each in beside if is_array(each)), key=_bytes, default=None)
        if found is not None and _bytes(found) > KEPT_BYTES:
            found = None
        began_ns = now()
        if not self._looking.is_affordable(began_ns) and (found is not None or not at_any_cost):
            return found
        if found is None:
            found = min(arrays(result), key=_bytes, default=None)
        self._path = None if found is None else _path_to(found, result)
        self._looking.took(began_ns, now())
        return found


def _bytes(array: Any) -> int:
    return int(array.nbytes)


def _path_to(array: Any, result: Any) -> _Path | None:
    """What leads from a result to an array in it; None where nothing is known to do so. Raises what JAX does of a tree that it does not
    know.
    """
    path: list[tuple[type, Callable[[Any], Any]]] = []
    part = result
    while part is not array:
        inner = next((each for each in _parts_of(part) if any(leaf is array for leaf in leaves_of(each))), None)
        step = None if inner is None or len(path) >= _DEEPEST else _step(part, inner)
        if step is None:
            return None
        path.append((type(part), step))
        part = inner
    return tuple(path)


def _parts_of(tree: Any) -> list[Any]:
    """What a tree holds directly."""
    return list(sys.modules["jax"].tree_util.tree_leaves(tree, is_leaf=lambda each: each is not tree))


def _step(part: Any, inner: Any) -> Callable[[Any], Any] | None:
    """What gives of a part the inner one; it raises LookupError of a part without. None where to ask might do anything."""
    kind = type(part)
    if kind is list or (issubclass(kind, tuple) and kind.__getitem__ is tuple.__getitem__):
        return next((itemgetter(number) for number, each in enumerate(part) if each is inner), None)
    if kind in _BY_KEY:
        return next((itemgetter(key) for key, each in part.items() if each is inner), None)
    return next((_named(name) for name, each in _attributes(part).items() if each is inner), None)


def _named(name: str) -> Callable[[Any], Any]:
    return lambda part: _attributes(part)[name]


def _attributes(part: Any) -> dict[str, Any]:
    """Those of the object itself, and none that its class computes."""
    return vars(part) if hasattr(part, "__dict__") else {}
