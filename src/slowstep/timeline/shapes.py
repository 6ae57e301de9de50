"""Shapes and element types of an operator's inputs: the texts in which tables hold them, checked where they are read from a file."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, TypeVar

import msgspec

T = TypeVar("T")

# A side that does not fit into 64 bits is no side. Profilers write -1 where one is not known.
Side = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
# Of a tensor its sides, of a number none; of a list of tensors the shape of each.
Shape = list[Side | list[Side]]

_SHAPES: Final = msgspec.json.Decoder(list[Shape])
_TYPES: Final = msgspec.json.Decoder(list[str])
_WRONG: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_shapes(text: str | bytes | None) -> list[Shape] | None:
    """The shapes of all inputs; None where the text holds none."""
    return _read(_SHAPES, text)


def read_types(text: str | bytes | None) -> list[str] | None:
    """The element types of all inputs; None where the text holds none."""
    return _read(_TYPES, text)


def spelled_shapes(text: str | bytes) -> str | None:
    """One spelling for the same shapes, however their text has been written; None where it holds none."""
    return _spelled(read_shapes(text))


def spelled_types(text: str | bytes) -> str | None:
    """The same of element types."""
    return _spelled(read_types(text))


def elements_of(shape: Shape) -> int | None:
    """How many elements a tensor of this shape has; None for a list of tensors, or where a side is not known."""
    sides = [side for side in shape if isinstance(side, int) and side >= 0]
    return math.prod(sides) if len(sides) == len(shape) else None


def _read(decoder: msgspec.json.Decoder[T], text: str | bytes | None) -> T | None:
    try:
        return decoder.decode(text) if text else None
    except _WRONG:
        return None


def _spelled(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
