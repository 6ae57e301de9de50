"""What a model returns under autocast, given back in float32 as without it."""

from __future__ import annotations

import sys
from typing import Any, Final

_DEEPEST: Final = 6


def in_float32(result: Any, depth: int = 0) -> Any:
    """The same tensors, lists, tuples and mappings, with 16-bit numbers widened; anything else as it is."""
    torch: Any = sys.modules["torch"]
    if isinstance(result, torch.Tensor):
        return result.float() if result.dtype in (torch.bfloat16, torch.float16) else result
    if depth >= _DEEPEST:
        return result
    if isinstance(result, dict):
        return _mapping(result, depth)
    if isinstance(result, (list, tuple)):
        return _sequence(result, depth)
    return result


def _sequence(result: Any, depth: int) -> Any:
    wide = [in_float32(part, depth + 1) for part in result]
    if all(new is old for new, old in zip(wide, result, strict=True)):
        return result
    # A named tuple takes its fields one by one.
    return type(result)(*wide) if hasattr(result, "_fields") else type(result)(wide)


def _mapping(result: dict[Any, Any], depth: int) -> Any:
    # Changed in its place: outputs of transformers are data classes as well, and know how they are assigned to.
    for key, value in list(result.items()):
        wide = in_float32(value, depth + 1)
        if wide is not value:
            result[key] = wide
    return result
