"""What the parameters of an optimizer, or of modules, are: how many, of which type, and where; whether one call updates them all, and
whether another optimizer had them before.
"""

from __future__ import annotations

import sys
import weakref
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


class HeldParameters:
    """Which optimizer holds which parameters: one that is made anew for the same model has those of the one before."""

    def __init__(self) -> None:
        # By id() of the parameter, which is another's once it is gone: the reference tells.
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def describe(self, optimizer: Any, number: int) -> dict[str, Any]:
        """Number of the optimizer that had one of its parameters last, 0 where all are new; nothing where it does not say what it holds, or
        where to know them would harm.
        """
        try:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            if any(map(_may_be_swapped, parameters)):
                return {}
            shares = max(map(self._holder, parameters), default=0)
            self._known.update((id(each), (weakref.ref(each), number)) for each in parameters)
        except Exception:
            return {}
        return {"shares": shares}

    def forget(self) -> None:
        """Refer to no parameter any more."""
        self._known.clear()

    def _holder(self, parameter: Any) -> int:
        known, number = self._known.get(id(parameter), (None, 0))
        return number if known is not None and known() is parameter else 0


def _may_be_swapped(parameter: Any) -> bool:
    """Whether `model.to()` swaps it for another tensor in its place: torch refuses to swap one that a reference like ours points to."""
    swaps = getattr(sys.modules.get("torch.__future__"), "get_swap_module_params_on_conversion", bool)
    return hasattr(type(parameter), "__tensor_flatten__") or bool(swaps())
