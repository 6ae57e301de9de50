"""What a batch says of itself: how many samples and bytes are in it. Anything unknown is -1, as in a record."""

from __future__ import annotations

from typing import Any, Final

_DEEPEST: Final = 4
_MOST_PARTS: Final = 64


def samples_in(batch: Any, depth: int = 0) -> int:
    """The leading dimension of the first array found in a nested batch."""
    size = getattr(batch, "size", None)
    if callable(size):
        # A tensor. Its `shape` would be built anew at every look.
        try:
            return int(size(0))
        except (IndexError, TypeError):
            return -1
    shape = getattr(batch, "shape", None)
    if isinstance(shape, tuple) and shape:
        return shape[0] if isinstance(shape[0], int) else -1
    if depth < _DEEPEST:
        for part in _parts(batch):
            found = samples_in(part, depth + 1)
            if found >= 0:
                return found
    return -1


def bytes_in(batch: Any, depth: int = 0) -> int:
    """Bytes of all arrays in a nested batch."""
    size_bytes = getattr(batch, "nbytes", None)
    if isinstance(size_bytes, int):
        return size_bytes
    total = -1
    if depth < _DEEPEST:
        for part in _parts(batch):
            found = bytes_in(part, depth + 1)
            if found >= 0:
                total = found + max(total, 0)
    return total


def _parts(batch: Any) -> list[Any]:
    if isinstance(batch, (list, tuple)):
        return list(batch[:_MOST_PARTS])
    values = getattr(batch, "values", None)
    if callable(values) and hasattr(batch, "keys"):
        return list(values())[:_MOST_PARTS]
    return []
