"""What a batch says of itself: how many samples and bytes are in it. Anything unknown is -1, as in a record. Nothing here raises.

No code of the user's is asked: what reads a batch must neither fail nor change it. What an installed library computes (the shape of an
array that is no object of Python, the values of a mapping) is asked of that library; where it fails the answer is not known.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable
from itertools import islice
from types import FunctionType
from typing import Any, Final

from slowstep.record.attributes import code_of, held_by

_DEEPEST: Final = 4
_MOST_PARTS: Final = 64


def samples_in(batch: Any) -> int:
    """The leading dimension of the first array found in a nested batch."""
    shape = shape_in(batch)
    return -1 if shape is None else shape[0]


def shape_in(batch: Any, depth: int = 0) -> tuple[int, ...] | None:
    """The first two lengths, or the only one, of the first array with a leading dimension that is found in a nested batch; None where there
    is none.
    """
    parts = parts_of(batch, _MOST_PARTS)
    if parts is None:
        shape = _told(batch, "shape")
        if shape is not None:
            return _leading(shape)
        parts = _library_values(batch)
    if depth < _DEEPEST:
        for part in parts:
            found = shape_in(part, depth + 1)
            if found is not None:
                return found
    return None


def bytes_in(batch: Any, depth: int = 0) -> int:
    """Bytes of all arrays in a nested batch."""
    parts = parts_of(batch, _MOST_PARTS)
    if parts is None:
        size_bytes = _told(batch, "nbytes")
        if type(size_bytes) is int:
            return size_bytes
        parts = _library_values(batch)
    total = -1
    if depth < _DEEPEST:
        for part in parts:
            found = bytes_in(part, depth + 1)
            if found >= 0:
                total = found + max(total, 0)
    return total


def parts_of(batch: Any, most: int | None = None) -> Iterable[Any] | None:
    """The first items or values of what is made of Python's lists, tuples and dictionaries; None of all else."""
    kind = type(batch)
    if issubclass(kind, (list, tuple)):
        of_kind: Any = list if issubclass(kind, list) else tuple
        return islice(of_kind.__iter__(batch), most)
    if issubclass(kind, UserDict):
        batch = held_by(batch, "data")
        kind = type(batch)
    return islice(dict.values(batch), most) if issubclass(kind, dict) else None


def _library_values(batch: Any) -> list[Any]:
    """The first values of a library's own mapping."""
    kind = type(batch)
    values = _in_class(kind, "values")
    if values is None or not _is_of_a_library(values) or _in_class(kind, "keys") is None:
        return []
    try:
        return list(islice(values(batch), _MOST_PARTS))
    except Exception:  # the library's own objection, whatever it is: not known is an answer
        return []


def _leading(shape: Any) -> tuple[int, ...] | None:
    if not issubclass(type(shape), tuple) and not _is_of_a_library(_in_class(type(shape), "__getitem__")):
        return None
    lengths = []
    for at in range(2):
        try:
            length = shape[at]
        except Exception:  # of no more dimensions, or of as many as are not known yet
            break
        if type(length) is not int:
            break
        lengths.append(length)
    return tuple(lengths) or None


def _told(thing: Any, name: str) -> Any:
    """An attribute that the object holds, or that a library computes; None of any other."""
    try:
        if (held := held_by(thing, name)) is not None:
            return held
        asked = _in_class(type(thing), name)
        getter = asked.fget if type(asked) is property else None
        return None if getter is None or not _is_of_a_library(getter) else getter(thing)
    except Exception:  # a sparse tensor has no bytes, a donated array no shape: not known is an answer
        return None


def _in_class(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _is_of_a_library(function: Any) -> bool:
    """Whether a function is an installed package's, or written in C."""
    code = code_of(function)
    return "-packages" in code.co_filename if code is not None else function is not None and type(function) is not FunctionType
