"""What a selection of an array that is stored in chunks touches: how many chunks, which are read whole, and how much it asks for.

Asked of numbers, slices and lists as they stand in the call: nothing that a class of the script's computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

# Of a list of places in a selection.
_MOST_LISTED: Final = 65_536


class Touched(NamedTuple):
    """Chunks that hold what is selected, and how many places of each dimension that is."""

    chunks: int
    lengths: tuple[int, ...]


def touched(shape: Sequence[int], chunk: Sequence[int], selection: Any) -> Touched | None:
    """Of an array of this shape, in chunks of that; None of a selection that is not understood (fields, masks of several dimensions)."""
    items = _of_each_dimension(selection, len(shape))
    if items is None or len(chunk) != len(shape) or min(chunk, default=1) < 1:
        return None
    places = [_places(item, length) for item, length in zip(items, shape, strict=True)]
    found = [each for each in places if each is not None]
    # What two lists select together differs from library to library.
    if len(found) < len(places) or sum(not isinstance(each, range) for each in found) > 1:
        return None
    count = math.prod(_chunks(each, size) for each, size in zip(found, chunk, strict=True))
    return Touched(count, tuple(map(len, found)))


def _of_each_dimension(selection: Any, dimensions: int) -> list[Any] | None:
    """An item for each dimension, where it says all of those that it leaves out."""
    items = list(selection) if type(selection) is tuple else [selection]
    dots = [at for at, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        return None
    at = dots[0] if dots else len(items)
    left_out = dimensions - len(items) + len(dots)
    if left_out < 0:
        return None
    return [*items[:at], *[slice(None)] * left_out, *items[at + len(dots) :]]


def _places(item: Any, length: int) -> Sequence[int] | None:
    """The places of a dimension that an item selects."""
    if type(item) is slice:
        ends = [_whole(end) for end in (item.start, item.stop, item.step)]
        if any(end is None and given is not None for end, given in zip(ends, (item.start, item.stop, item.step), strict=True)):
            return None
        return range(*slice(*ends).indices(length)) if ends[2] != 0 else None
    if (place := _whole(item)) is not None:
        place += length if place < 0 else 0
        return range(place, place + 1)
    return _listed(item)


def _whole(value: Any) -> int | None:
    """A whole number of Python's or NumPy's."""
    if type(value) is int:
        return value
    kind = type(value)
    return int(value) if kind.__module__ == "numpy" and kind.__name__.startswith(("int", "uint")) else None


def _listed(item: Any) -> list[int] | None:
    """A list of places, or an array of one dimension with them, or with which of them are asked for."""
    if (type(item).__module__, type(item).__name__) == ("numpy", "ndarray"):
        if item.ndim != 1 or item.dtype.kind not in "iub" or len(item) > _MOST_LISTED:
            return None
        item = item.tolist()
    if type(item) is not list or len(item) > _MOST_LISTED:
        return None
    if item and all(type(place) is bool for place in item):
        return [place for place, is_asked_for in enumerate(item) if is_asked_for]
    places = [_whole(place) for place in item]
    return [place for place in places if place is not None] if None not in places else None


def _chunks(places: Sequence[int], size: int) -> int:
    """In how many chunks of a dimension these places lie."""
    if isinstance(places, range) and abs(places.step) <= size:
        return abs(places[-1] // size - places[0] // size) + 1 if places else 0
    return len({place // size for place in places})
