"""What a batch says of itself: how many samples and bytes are in it. Anything unknown is -1, as in a record."""

from __future__ import annotations

from typing import Any, Final

_DEEPEST: Final = 4
_MOST_PARTS: Final = 64


def samples_in(batch: Any) -> int:
    """The leading dimension of the first array found in a nested batch."""
    shape = shape_in(batch)
    return -1 if shape is None else int(shape[0])


def shape_in(batch: Any, depth: int = 0) -> Any | None:
    """The shape of the first array with a leading dimension that is found in a nested batch; None where there is none."""
    if isinstance(batch, (list, tuple)):
        parts: Any = batch
    else:
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return shape if shape and type(shape[0]) is int else None
        parts = _values(batch)
    if depth < _DEEPEST:
        for part in parts[:_MOST_PARTS]:
            found = shape_in(part, depth + 1)
            if found is not None:
                return found
    return None


def bytes_in(batch: Any, depth: int = 0) -> int:
    """Bytes of all arrays in a nested batch."""
    size_bytes = getattr(batch, "nbytes", None)
    if isinstance(size_bytes, int):
        return size_bytes
    total = -1
    if depth < _DEEPEST:
        parts = batch if isinstance(batch, (list, tuple)) else _values(batch)
        for part in parts[:_MOST_PARTS]:
            found = bytes_in(part, depth + 1)
            if found >= 0:
                total = found + max(total, 0)
    return total


def _values(batch: Any) -> list[Any]:
    values = getattr(batch, "values", None)
    return list(values()) if callable(values) and hasattr(batch, "keys") else []
