"""Updates that a script makes by hand: it has gradients and no optimizer of torch's, so its steps are told by their backward passes."""

from __future__ import annotations

from types import CodeType
from typing import Any, Final

# Torch wraps the `step` of a class of optimizers when the first of them is built, and marks what it has wrapped.
_WRAPPED: Final = "hooked"
_GRADIENTS: Final = frozenset({"grad", "grads", "gradient", "gradients"})


class ByHand:
    """Stands for the optimizer of a script that has none; `device` is the kind of device that the losses are on, None where unknown."""

    __slots__ = ("__weakref__", "device")

    def __init__(self, device: str | None) -> None:
        self.device = device

    def describe(self) -> dict[str, Any]:
        """The same of it as of an optimizer: which parameters the script changes is not seen."""
        return {"by_hand": True, "params": None, "dtypes": None, "device": self.device}


def names_gradients(code: CodeType) -> bool:
    """Whether a function, its comprehensions and lambdas included, names gradients (`p.grad`, `grads`), as whoever updates by hand does."""
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name.startswith("<"))
    return not names.isdisjoint(_GRADIENTS) or any(map(names_gradients, inner))


def has_optimizer(module: Any) -> bool | None:
    """Whether this process has ever built an optimizer; `module` is torch.optim.optimizer. None where it does not say."""
    if not hasattr(getattr(module, "Optimizer", None), "_patch_step_function"):
        return None
    classes = [module.Optimizer]
    while classes:
        known = classes.pop()
        if getattr(vars(known).get("step"), _WRAPPED, None):
            return True
        classes.extend(known.__subclasses__())
    return False
