"""Which modules are models. An augmentation or a metric is a module too, and its call is no forward of a training."""

from __future__ import annotations

from typing import Any, Final

from slowstep.record.hook import find

# Some modules make their parameters in their first calls.
_LOOKS: Final = 3
# A module may be made anew for every step.
_MOST: Final = 1000


class Models:
    """Tells modules apart, and remembers them. Raises Unfit where torch has no modules."""

    def __init__(self, torch: Any) -> None:
        self._parameters, self._modules = find(torch, "nn.Module.parameters"), find(torch, "nn.Module.modules")
        self._tensor: Any = find(torch, "Tensor")
        # By id, with the type, because another module may come to lie where one was; and how often it was looked at.
        self._known: dict[int, tuple[type, bool, int]] = {}

    def is_model(self, module: Any) -> bool:
        """Whether a module, or one inside of it, has parameters or tensors that want gradients. Raises what the module itself raises."""
        kind, found, looks = self._known.get(id(module), (None, False, 0))
        if kind is not type(module):
            found, looks = False, 0
        if found or looks >= _LOOKS:
            return found
        found = next(iter(self._parameters(module)), None) is not None or any(map(self._has_tensors, self._modules(module)))
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[id(module)] = type(module), found, looks + 1
        return found

    def _has_tensors(self, module: Any) -> bool:
        return any(isinstance(each, self._tensor) and each.requires_grad for each in module.__dict__.values())
