"""What a batch is made of: how many tensors, of which types, and whether 8 bits would carry their values. Looked at rarely, in workers."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

_DEEPEST: Final = 6
MOST_TENSORS: Final = 10_000
# Values looked at: of one channel of three samples, where the shape says that the second dimension is one of channels.
VALUES: Final = 1024
LEVELS: Final = 256
# Rounding of a float32 that was made of 8 bits by a shift and a factor: a few units of 2e-7 in a step of 1/255 of the range.
GRID_TOLERANCE: Final = 0.1
_ARRAYS: Final = frozenset({("torch", "Tensor"), ("numpy", "ndarray")})


def batch_form(batch: Any) -> dict[str, Any]:
    """The number of tensors and their bytes by type, and in NumPy's arrays; of the largest one, whether 256 levels hold its values."""
    arrays: list[Any] = []
    _collect(batch, arrays, 0)
    by_type: dict[str, int] = {}
    wide_bytes = 0
    for array in sorted(arrays, key=lambda a: -int(a.nbytes))[:8]:
        if int(array.dtype.itemsize) > 1 and fits_a_byte(_values(array)):
            wide_bytes += int(array.nbytes) - int(array.nbytes) // int(array.dtype.itemsize)
    for array in arrays:
        name = str(array.dtype).removeprefix("torch.")
        by_type[name] = by_type.get(name, 0) + int(array.nbytes)
    in_arrays = sum(int(array.nbytes) for array in arrays if type(array).__module__ == "numpy")
    return {
        "tensors": len(arrays),
        "bytes": sum(by_type.values()),
        "types": by_type,
        "spare_bytes": wide_bytes,
        "array_bytes": in_arrays,
    }


def fits_a_byte(values: list[Any]) -> bool:
    """Whether values are on one grid of at most 256 levels: then 8 bits, a shift and a factor give each of them back.

    Fewer than VALUES / 4 values, or a single level, prove nothing.
    """
    if len(values) < VALUES // 4:
        return False
    levels = sorted(set(values))
    if len(levels) < 2 or len(levels) > LEVELS or not all(math.isfinite(level) for level in levels):
        return False
    step = min(b - a for a, b in itertools.pairwise(levels))
    if isinstance(levels[0], int):
        return levels[0] >= 0 and levels[-1] < LEVELS
    places = [(level - levels[0]) / step for level in levels]
    return places[-1] <= LEVELS - 0.5 and all(abs(place - round(place)) <= GRID_TOLERANCE for place in places)


def _values(array: Any) -> list[Any]:
    """Values of the same channel in the first, middle and last sample."""
    shape = tuple(array.shape)
    if len(shape) < 1 or not all(shape):
        return []
    found: list[Any] = []
    for sample in sorted({0, shape[0] // 2, shape[0] - 1}):
        part = array[sample]
        if len(shape) >= 4:
            part = part[0]
        found += _some(part.reshape(-1)) if len(shape) > 1 else []
    return found if len(shape) > 1 else _some(array)


def _some(flat: Any) -> list[Any]:
    """Values spread over a flat array."""
    return list(flat[:: max(len(flat) // VALUES, 1)][:VALUES].tolist())


def _collect(part: Any, arrays: list[Any], depth: int) -> None:
    if len(arrays) >= MOST_TENSORS:
        return
    kind = type(part)
    if (kind.__module__, kind.__name__) in _ARRAYS:
        arrays.append(part)
    elif depth < _DEEPEST and isinstance(part, (list, tuple)):
        for item in part:
            _collect(item, arrays, depth + 1)
    elif depth < _DEEPEST and isinstance(part, dict):
        for item in part.values():
            _collect(item, arrays, depth + 1)
