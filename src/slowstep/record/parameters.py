"""What the parameters of an optimizer, or of modules, are: how many, of which type, and where; and whether one call updates them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

_UNTOLD: Final = {"params": None, "dtypes": None, "device": None, "fused": None}


def describe_parameters(optimizer: Any) -> dict[str, Any]:
    """Elements, elements by dtype, the kind of device that holds most of them, and whether all are updated by a fused call; None where the
    optimizer does not say.
    """
    try:
        groups = optimizer.param_groups
        return {**_describe(parameter for group in groups for parameter in group["params"]), "fused": _is_fused(groups)}
    except Exception:
        # Lazy parameters have no size yet, and a custom optimizer may have no groups.
        return dict(_UNTOLD)


def describe_trained(modules: Iterable[Any]) -> dict[str, Any]:
    """The same of the parameters of modules that want gradients: what a script that updates by hand may change."""
    try:
        return _describe(parameter for module in modules for parameter in module.parameters() if parameter.requires_grad)
    except Exception:
        return dict(_UNTOLD)


def _describe(parameters: Iterable[Any]) -> dict[str, Any]:
    dtypes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    for parameter in parameters:
        elements = int(parameter.numel())
        dtypes[str(parameter.dtype).removeprefix("torch.")] += elements
        devices[parameter.device.type] += elements
    device = max(devices, key=lambda kind: devices[kind], default=None)
    return {**_UNTOLD, "params": sum(dtypes.values()), "dtypes": dict(dtypes), "device": device}


def _is_fused(groups: Any) -> bool | None:
    """Torch fuses by itself on accelerators, but not on a processor. None where an optimizer has no such choice."""
    try:
        choices = [group["fused"] for group in groups]
    except KeyError:
        return None
    return all(choices) if choices else None
