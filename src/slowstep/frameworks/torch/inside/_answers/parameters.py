"""What the parameters of an optimizer, or of modules, are: how many, of which type, and where; and whether one call updates them all."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from slowstep.record.framework import PlacedArray

_UNTOLD: Final = {"params": None, "tensors": None, "shapes": None, "dtypes": None, "device": None, "fused": None}


def describe_optimizer(optimizer: Any) -> dict[str, Any]:
    """Elements, tensors, of how many different shapes, elements by dtype, the kind of device that holds most of them, and whether all are
    updated by a fused call, have a momentum, or have their weights decay; None where the optimizer does not say.
    """
    try:
        groups = optimizer.param_groups
        described = _describe(parameter for group in groups for parameter in group["params"])
        return {**described, "fused": _is_fused(groups), "momentum": _has(groups, "momentum"), "decays": _has(groups, "weight_decay")}
    except Exception:
        # Lazy parameters have no size yet, and a custom optimizer may have no groups.
        return dict(_UNTOLD)


def describe(parameters: Iterable[Any]) -> dict[str, Any]:
    """The same of any parameters."""
    try:
        return _describe(parameters)
    except Exception:
        return dict(_UNTOLD)


def _describe(parameters: Iterable[Any]) -> dict[str, Any]:
    dtypes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    given = list(parameters)
    for parameter in given:
        elements = int(parameter.numel())
        dtypes[str(parameter.dtype).removeprefix("torch.")] += elements
        devices[parameter.device.type] += elements
    device = max(devices, key=lambda kind: devices[kind], default=None)
    counts = {"params": sum(dtypes.values()), "tensors": len(given), "shapes": len({tuple(parameter.shape) for parameter in given})}
    return {**_UNTOLD, **counts, "dtypes": dict(dtypes), "device": device}


def _is_fused(groups: Any) -> bool | None:
    """Torch fuses by itself on accelerators, but not on a processor. None where an optimizer has no such choice."""
    try:
        choices = [group["fused"] for group in groups]
    except KeyError:
        return None
    return all(choices) if choices else None


def _has(groups: Any, name: str) -> bool | None:
    """Whether any group has such a number other than 0; None where one has none, or where it is no plain number."""
    values = [group.get(name) for group in groups]
    return any(value != 0 for value in values) if all(type(value) in (int, float) for value in values) else None


def parameters_of(optimizer: Any) -> list[Any] | None:
    """All that an optimizer holds; None where one may be swapped. Raises where it has no groups."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return None if any(map(_may_be_swapped, parameters)) else parameters


def array_of(value: Any) -> PlacedArray | None:
    """A tensor that lies in one place; one of another class may do anything when it is asked."""
    torch: Any = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided or value.is_meta:
        return None
    try:
        return PlacedArray(value.data_ptr(), tuple(value.shape), value.numel() * value.element_size())
    except RuntimeError:  # it has no storage, as where a transformation of functions stands in for it
        return None


def _may_be_swapped(parameter: Any) -> bool:
    """Whether `model.to()` swaps it for another tensor in its place: torch refuses to swap one that a reference like ours points to."""
    swaps = getattr(sys.modules.get("torch.__future__"), "get_swap_module_params_on_conversion", bool)
    return hasattr(type(parameter), "__tensor_flatten__") or bool(swaps())
