"""Copies of batches: of what tensors hold, or of the containers around them only. What is no array is taken over as it is."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any, Final

_DEEPEST: Final = 8
# Of objects that are no containers: further in they refer to more than the batch.
_DEEPEST_OBJECT: Final = 3


def copied(batch: Any, *, pinned: bool = False) -> Any:
    """A batch with arrays of its own in ordinary memory: those of workers lie in shared memory, each with an open file."""
    return _changed(batch, lambda array: _copied_array(array, pinned=pinned), 0)


def handed_out(batch: Any) -> Any:
    """A batch around the same memory, which the script may take apart; a change of a tensor in place counts in `changes` of the original.

    Arrays of numpy do not count changes: they are copied.
    """
    return _changed(batch, lambda array: array.detach().requires_grad_(array.requires_grad) if is_tensor(array) else array.copy(), 0)


def tensors(batch: Any) -> list[Any]:
    """All tensors in it."""
    found: list[Any] = []

    def look(array: Any) -> Any:
        if is_tensor(array):
            found.append(array)
        return array

    _changed(batch, look, 0)
    return found


def changes(tensor: Any) -> int:
    """How often a tensor was changed in place; -1 for one that does not count."""
    return -1 if tensor.is_inference() else int(tensor._version)


def is_tensor(part: Any) -> bool:
    """Whether it is a tensor of torch's."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(part, torch.Tensor)


def _copied_array(array: Any, *, pinned: bool) -> Any:
    if not is_tensor(array):
        return array.copy()
    made = array.detach().clone().requires_grad_(array.requires_grad)
    return made.pin_memory() if pinned and made.device.type == "cpu" else made


def _changed(part: Any, change: Callable[[Any], Any], depth: int) -> Any:
    kind = type(part)
    if is_tensor(part) or (kind.__module__, kind.__name__) == ("numpy", "ndarray"):
        return change(part)
    if depth >= _DEEPEST or isinstance(part, (str, bytes, int, float, type(None), type)):
        return part
    if isinstance(part, tuple):
        items = [_changed(item, change, depth + 1) for item in part]
        return kind(*items) if hasattr(part, "_fields") else kind(items)
    if isinstance(part, list):
        return kind([_changed(item, change, depth + 1) for item in part])
    return _changed_object(part, change, depth)


def _changed_object(part: Any, change: Callable[[Any], Any], depth: int) -> Any:
    """A mapping, or an object with attributes: copied as it copies itself."""
    state = getattr(part, "__dict__", None)
    if not (state or (hasattr(part, "keys") and hasattr(part, "__setitem__"))) or callable(part):
        return part
    made = copy.copy(part)
    if hasattr(made, "keys") and hasattr(made, "__setitem__"):
        for key in list(made.keys()):
            made[key] = _changed(made[key], change, depth + 1)
        return made
    for name, value in vars(part).items() if depth < _DEEPEST_OBJECT else ():
        object.__setattr__(made, name, _changed(value, change, depth + 1))
    return made
