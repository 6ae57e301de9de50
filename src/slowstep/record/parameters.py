"""What an optimizer's parameters are: how many, of which type, and where."""

from __future__ import annotations

from collections import Counter
from typing import Any


def describe_parameters(optimizer: Any) -> dict[str, Any]:
    """Elements, elements by dtype, and the kind of device that holds most of them; None where the parameters do not say."""
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
        return {"params": None, "dtypes": None, "device": None}
    return {"params": sum(dtypes.values()), "dtypes": dict(dtypes), "device": max(devices, key=lambda kind: devices[kind], default=None)}
