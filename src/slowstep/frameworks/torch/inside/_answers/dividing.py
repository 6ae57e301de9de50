"""Whether a stream (an IterableDataset) gives each worker other samples, as its code tells: nothing of it is called.

Every worker iterates over a copy of the stream. Where that does not ask torch.utils.data.get_worker_info() which worker it is in, each
worker gives all samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from slowstep.record.timing.line_counts import is_users

# What asks which worker it is, or is built on that: torch's own, webdataset's and torchdata's.
_ASKS: Final = frozenset({"get_worker_info", "pytorch_worker_info", "split_by_worker", "sharding_filter", "worker_id", "_worker_info"})
# So much is looked at; of more it is not known. Of what others hold so many are, and so deep.
_MOST_CODES: Final = 2000
_MOST_HELD: Final = 50
_DEEPEST: Final = 6
_CONTAINERS: Final = (list, tuple, set, frozenset)
# What every stream is made of.
_ROOTS: Final = ("abc", "builtins", "collections", "torch", "typing")


def divides(stream: Any, start_worker: Any = None) -> bool | None:
    """Whether each worker gets a part of the stream; None where that is not known, as where the script does something when a worker starts
    (`start_worker`), or where the stream is a library's.
    """
    look = _Look(stream)
    if look.asks:
        return True
    return False if not look.is_cut and start_worker is None and _is_users(type(stream)) else None


class _Look:
    """Goes over the code that a thing is made of, the nearest first, until some of it asks which worker runs it."""

    def __init__(self, thing: Any) -> None:
        self.asks = self.is_cut = False
        self._pending = deque[tuple[Any, int]]([(thing, 0)])
        self._seen: set[int] = set()
        self._codes = 0
        while self._pending and not self.asks and not self.is_cut:
            thing, depth = self._pending.popleft()
            if id(thing) not in self._seen and depth <= _DEEPEST:
                self._seen.add(id(thing))
                self._at(thing, depth)

    def _at(self, thing: Any, depth: int) -> None:
        """A thing, what it holds, and what its code names."""
        # Not by isinstance, which asks a thing of the script's for its `__class__`.
        kind = type(thing)
        if kind is FunctionType:
            self._at_function(thing, depth)
        elif issubclass(kind, type):
            self._at_class(thing, depth)
        elif kind in _CONTAINERS:
            self._pending.extend((held, depth + 1) for held in islice(thing, _MOST_HELD))
        elif kind.__module__ != "builtins":
            self._pending.append((kind, depth))
            self._pending.extend((held, depth + 1) for held in islice(list(_attributes(thing).values()), _MOST_HELD))

    def _at_class(self, kind: type, depth: int) -> None:
        for base in kind.__mro__:
            if base.__module__.partition(".")[0] not in _ROOTS:
                for value in list(vars(base).values()):
                    self._at_callable(_function_of(value), depth)

    def _at_function(self, function: FunctionType, depth: int) -> None:
        codes = list(_codes(function.__code__))
        names = {name for code in codes for name in code.co_names}
        self._codes += len(codes)
        self.asks = not names.isdisjoint(_ASKS)
        self.is_cut = self._codes > _MOST_CODES
        for cell in function.__closure__ or ():
            self._at_callable(_content(cell), depth + 1)
        for name in names & function.__globals__.keys():
            value = function.__globals__[name]
            self._at_callable(value, depth + 1)
            if type(value) is ModuleType and is_users(str(getattr(value, "__file__", "<"))):
                for called in names & vars(value).keys():
                    self._at_callable(vars(value)[called], depth + 1)

    def _at_callable(self, value: Any, depth: int) -> None:
        if type(value) is FunctionType or issubclass(type(value), type):
            self._pending.append((value, depth))


def _is_users(kind: type) -> bool:
    functions = filter(None, map(_function_of, vars(kind).values()))
    return any(is_users(function.__code__.co_filename) for function in functions)


def _function_of(value: Any) -> FunctionType | None:
    """What a class holds as a function, without looking it up there."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, FunctionType) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _attributes(thing: Any) -> dict[str, Any]:
    # Not by getattr, which may run code of the script's.
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
