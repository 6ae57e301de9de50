"""What an optimizer's parameters are: how many, of which type, and where; and whether one call updates them all."""

from __future__ import annotations

from collections import Counter
from typing import Any


def describe_parameters(optimizer: Any) -> dict[str, Any]:
    """Elements, elements by dtype, the kind of device that holds most of them, and whether all are updated by a fused call; None where the
    optimizer does not say.
    """
    dtypes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    try:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                elements = int(parameter.numel())
                dtypes[str(parameter.dtype).removeprefix("torch.")] += elements
                devices[parameter.device.type] += elements
    except Exception:
        # Lazy parameters have no size yet, and a custom optimizer may have no groups.
        return {"params": None, "dtypes": None, "device": None, "fused": None}
    device = max(devices, key=lambda kind: devices[kind], default=None)
    return {"params": sum(dtypes.values()), "dtypes": dict(dtypes), "device": device, "fused": _is_fused(optimizer.param_groups)}


def _is_fused(groups: Any) -> bool | None:
    """Torch fuses by itself on accelerators, but not on a processor. None where an optimizer has no such choice."""
    try:
        choices = [group["fused"] for group in groups]
    except KeyError:
        return None
    return all(choices) if choices else None
