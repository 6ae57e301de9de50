"""Whether lines on what a backward pass computes say what their table needs."""

from __future__ import annotations

from typing import Any

from slowstep.sources._recording.note_types import is_of

_COUNTS = ("elements", "dear", "scattered", "products", "whole")
# Newer notes have how many operations multiply, and of which 16-bit types.
TYPE_COUNTS = ("multiplying", "float16", "bfloat16")
_LISTS = ("parts", "weights")
# Of a row of products behind its kind and its shape: how many there are, products, elements and times. Newer ones have a kernel's lengths.
_NUMBERS = 7
UNUSED_COUNTS = ("parameters", "elements", "rounds", "nodes", "alone", "halves", "passing", "alone_ns", "halves_ns")


def graph_work_fits(note: dict[str, Any]) -> bool:
    """Whether nothing is counted less than never, and each repetition is of lengths."""
    are_counted = all(note[name] >= 0 for name in _COUNTS) and all((note.get(name) or 0) >= 0 for name in TYPE_COUNTS)
    return are_counted and all(_are_lengths(row) and (name != "weights" or len(row) == 2) for name in _LISTS for row in note[name])


def graph_products_fit(note: dict[str, Any]) -> bool:
    """Whether each row is of something that is there, and has all its numbers."""
    return all(map(_is_product, note["rows"]))


def unused_fits(note: dict[str, Any]) -> bool:
    """Whether nothing is counted less than never, and no more is found than was looked at."""
    return 0 <= note["found"] <= note["looks"] and all((note.get(name) or 0) >= 0 for name in UNUSED_COUNTS)


def _is_product(row: Any) -> bool:
    if not isinstance(row, list) or len(row) not in (2 + _NUMBERS, 3 + _NUMBERS):
        return False
    (kind, shape), numbers, kernel = row[:2], row[2 : 2 + _NUMBERS], row[2 + _NUMBERS :]
    are_shapes = all(each == [] or _are_lengths(each) for each in (shape, *kernel))
    return is_of(kind, str) and are_shapes and is_of(numbers, list[int]) and numbers[0] > 0


def _are_lengths(row: Any) -> bool:
    return is_of(row, list[int]) and len(row) > 0 and min(row) >= 0
