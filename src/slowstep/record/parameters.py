"""What the parameters of an optimizer, or of modules, are: how many, of which type, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

_UNTOLD: Final = {"params": None, "dtypes": None, "device": None}


def describe_parameters(optimizer: Any) -> dict[str, Any]:
    """Elements, elements by dtype, and the kind of device that holds most of them; None where the parameters do not say."""
    try:
        return _describe(parameter for group in optimizer.param_groups for parameter in group["params"])
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
    return {"params": sum(dtypes.values()), "dtypes": dict(dtypes), "device": max(devices, key=lambda kind: devices[kind], default=None)}
