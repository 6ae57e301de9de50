"""Whether a value in a note is of a type: JSON has no other than its own."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, get_args, get_origin

# A type, or that of all that a list or a dict holds.
FitKind = type | GenericAlias


def is_of(value: Any, kind: FitKind) -> bool:
    """Whether a value is of a type, of a list or dict every value in it too. True and False are no numbers."""
    if isinstance(kind, GenericAlias):
        items = value.values() if isinstance(value, dict) else value
        return isinstance(value, get_origin(kind)) and all(is_of(item, get_args(kind)[-1]) for item in items)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def are_counts(values: list[Any]) -> bool:
    """Whether each value is a whole number, and none is negative."""
    return all(is_of(value, int) and value >= 0 for value in values)


def is_place(value: Any) -> bool:
    """Whether it is two texts and a line: where a function is."""
    return isinstance(value, list) and len(value) == 3 and all(map(is_of, value, (str, str, int)))
