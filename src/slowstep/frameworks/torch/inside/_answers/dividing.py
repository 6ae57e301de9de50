"""Whether a stream (an IterableDataset) may give each worker all of its samples, as its code tells: nothing of it is called.

Every worker iterates over a copy of the stream. Where nothing that it is made of asks torch.utils.data.get_worker_info() which worker it is
in, each gives all samples, unless they come from outside one by one. Where some of it draws at random nothing is known: torch seeds each
worker in its own way, but what is drawn may be an order alone, and a generator that the stream holds is a copy that draws the same in each.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Final

from slowstep.frameworks.torch.inside._answers.drawing import (
    asks_for_a_sample,
    draws_as_held,
    draws_as_set,
    draws_by_its_names,
    draws_when_used,
    is_source,
)
from slowstep.record.attributes import held_by
from slowstep.record.timing.line_counts import is_users

# What asks which worker it is, or is built on that: torch's own, webdataset's and torchdata's.
_ASKS: Final = frozenset({"get_worker_info", "pytorch_worker_info", "split_by_worker", "sharding_filter", "worker_id", "_worker_info"})
# What all workers may share, or what tells them apart otherwise.
_OUTSIDE: Final = frozenset({"environ", "getenv", "getpid", "get_nowait", "recv", "urlopen", "connect", "socket"})
_SHARED: Final = ("ctypes", "mmap", "multiprocessing", "queue", "socket", "subprocess", "torch.multiprocessing")
# Of what is larger, or deeper, it is not known: loops may make a stream in each step. So many functions are looked at in 4 to 7 ms, and in
# 40 to 90 where each names `sample` of itself (two busy cores of an EPYC).
_MOST_CODES: Final = 400
_MOST_HELD: Final = 50
_DEEPEST: Final = 6
_CONTAINERS: Final = (list, tuple, set, frozenset, deque)
_PLAIN: Final = (bool, bytes, complex, float, int, str, type(None))
# Where torch's modules and loaders hold what works in them.
_MODULES: Final = "_modules"
_PARTS: Final = ("batch_sampler", "sampler")
# What every stream is made of.
_ROOTS: Final = ("abc", "builtins", "collections", "torch", "typing")


@dataclass(frozen=True, slots=True)
class Division:
    """Whether each worker gets a part of a stream; None where that is not known. `draws`: it is not, because something draws at random."""

    divides: bool | None
    draws: bool = False


# By the id of the stream, which lives.
_known: dict[int, tuple[weakref.ref[Any], Division]] = {}


def divides(stream: Any, start_worker: Any = None) -> bool | None:
    """Whether each worker gets a part of the stream; False where nothing asks for it. None where that is not known, as where the script
    does something when a worker starts (`start_worker`), where something draws at random, or where the stream is a library's.
    """
    answer = division_of(stream).divides
    return None if answer is False and start_worker is not None else answer


def division_of(stream: Any) -> Division:
    """What its code tells. Looked at once for each stream."""
    kept = _known.get(id(stream))
    if kept is not None and kept[0]() is stream:
        return kept[1]
    answer = _looked_at(stream)
    _keep(stream, answer)
    return answer


def _looked_at(stream: Any) -> Division:
    look = _Look(stream)
    if look.asks:
        return Division(True)
    if look.is_open or not _is_users(type(stream)):
        return Division(None)
    return Division(None if look.draws else False, draws=look.draws)


def _keep(stream: Any, answer: Division) -> None:
    number = id(stream)
    try:
        _known[number] = weakref.ref(stream, lambda _: _known.pop(number, None)), answer
    except TypeError:  # it has slots only
        pass


class _Look:
    """Goes over the code that a thing is made of, the nearest first, until some of it asks which worker runs it. `is_open`: something was
    met that may tell workers apart in another way, or was not looked at. `draws`: something was met that draws at random.
    """

    def __init__(self, thing: Any) -> None:
        self.asks = self.is_open = self.draws = False
        self._pending = deque[tuple[Any, int]]([(thing, 0)])
        self._seen: set[int] = set()
        self._codes = 0
        while self._pending and not self.asks and not self.is_open:
            thing, depth = self._pending.popleft()
            # Not by isinstance, which asks a thing of the script's for its `__class__`.
            if type(thing) not in _PLAIN and id(thing) not in self._seen:
                self._seen.add(id(thing))
                self.is_open |= depth > _DEEPEST
                self._at(thing, depth)

    def _at(self, thing: Any, depth: int) -> None:
        """A thing, what it holds, and what its code names."""
        kind = type(thing)
        if kind is FunctionType:
            self._at_function(thing, depth)
        elif issubclass(kind, type):
            self._at_class(thing, depth)
        elif kind is MethodType:
            self._hold(depth, thing.__func__, thing.__self__)
        elif kind is BuiltinFunctionType:
            self._hold(depth, thing.__self__)
        elif issubclass(kind, functools.partial):
            self._hold(depth, thing.func, *thing.args, *thing.keywords.values())
        elif kind in _CONTAINERS or kind is dict:
            self._at_container(thing.values() if kind is dict else thing, depth)
        elif kind is GeneratorType:
            # What is left of it lies in its frame.
            self.is_open = True
        elif kind.__module__ != "builtins" and kind is not ModuleType:
            self._at_object(thing, depth)

    def _hold(self, depth: int, *things: Any) -> None:
        """Things that are held, or named in code: of a library's the name may tell."""
        self.draws |= any(map(draws_as_held, things))
        self._go_on(depth + 1, *things)

    def _go_on(self, depth: int, *things: Any) -> None:
        self._pending.extend((thing, depth) for thing in things)

    def _at_container(self, held: Any, depth: int) -> None:
        first = list(islice(held, _MOST_HELD + 1))
        # A long list of paths or numbers is that to its end.
        self.is_open |= len(first) > _MOST_HELD and any(type(each) not in _PLAIN for each in first)
        self._hold(depth, *first[:_MOST_HELD])

    def _at_object(self, thing: Any, depth: int) -> None:
        kind = type(thing)
        self.is_open |= str(kind.__module__).startswith(_SHARED)
        self._go_on(depth, kind)
        slots = (name for base in kind.__mro__ for name in _slots(base))
        held = held_by(thing, "__dict__")
        own = held if type(held) is dict else {}
        values = [value for name, value in own.items() if name != _MODULES]
        self.draws = self.draws or draws_as_set(thing)
        self._at_modules(own.get(_MODULES), depth)
        # A library's object does as its class says; what a script's holds may do anything.
        if _is_users(kind) or depth == 0:
            self._at_container([*values, *(held_by(thing, name) for name in slots)], depth)
        else:
            self._hold(depth, *(each for each in islice(values, _MOST_HELD) if callable(each) or type(each) in (list, tuple)))
            self._hold(depth, *(own[name] for name in _PARTS if name in own))

    def _at_modules(self, modules: Any, depth: int) -> None:
        """Those within a module lie as deep as it: a model is one thing, however its layers are nested. Each counts as a function."""
        if type(modules) is dict:
            self._codes += len(modules)
            self.is_open |= self._codes > _MOST_CODES
            self._at_container(modules.values(), max(depth - 1, 0))

    def _at_class(self, kind: type, depth: int) -> None:
        self.draws = self.draws or is_source(kind) or draws_when_used(kind)
        for base in kind.__mro__:
            if str(base.__module__).partition(".")[0] not in _ROOTS:
                values = list(vars(base).values())
                # A library's class may have some that draw, as tables do, and nobody asks for them.
                self._go_on(depth, *filter(None, map(_function_of, values)))
                if _is_users(base):
                    self._hold(depth, *map(_unwrapped, values))

    def _at_function(self, function: FunctionType, depth: int) -> None:
        codes = list(_codes(function.__code__))
        names = {name for code in codes for name in code.co_names}
        self._codes += len(codes)
        self.asks = not names.isdisjoint(_ASKS)
        # What a library's function calls is not followed.
        if self.asks or not is_users(function.__code__.co_filename):
            return
        self.is_open |= self._codes > _MOST_CODES or not names.isdisjoint(_OUTSIDE)
        self.draws = self.draws or draws_by_its_names(names) or any(map(asks_for_a_sample, codes))
        self._hold(depth, *map(_content, function.__closure__ or ()))
        for name in names & function.__globals__.keys():
            value = function.__globals__[name]
            self._hold(depth, value)
            if type(value) is ModuleType and is_users(str(vars(value).get("__file__") or "<")):
                self._hold(depth, *(vars(value)[called] for called in names & vars(value).keys()))


def _is_users(kind: type) -> bool:
    functions = filter(None, map(_function_of, vars(kind).values()))
    return any(is_users(function.__code__.co_filename) for function in functions)


def _function_of(value: Any) -> FunctionType | None:
    """What a class holds as a function, without looking it up there."""
    function = _unwrapped(value)
    return function if type(function) is FunctionType else None


def _unwrapped(value: Any) -> Any:
    """What a class holds, out of what binds it or not."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    return value.fget if type(value) is property else value


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if type(slots) is str else tuple(name for name in slots if type(name) is str)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if type(inner) is CodeType:
            yield from _codes(inner)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
