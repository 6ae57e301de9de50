"""The optimizer updates all parameters in one pass: `fused=True`.

It is for Adam, AdamW, SGD and Adagrad of `torch.optim`, on whatever device torch fuses them.

What it changes:
    `fused` of the optimizer's groups, and of the defaults that later groups get; `foreach`, which torch takes no more beside it, is off.
    Where the optimizer counts its updates, the counts are on the parameters' device meanwhile, in float32, as a fused update reads them.
    Averages and momentum are the same tensors with it and without. Of several optimizers all are changed.
What it answers:
    What `fused=True` gains. It changes the numbers: operations are merged, and rounding differs, so losses are compared.
When it has no meaning:
    Another kind of optimizer, or a class of the script's own; one that is fused already, calls a closure, is differentiable or capturable
    (a captured graph goes on as it was), or is a part of what was compiled; gradients that are sparse, parameters that are divided among
    ranks, a GradScaler, which would leave its own pass over the gradients to such an optimizer; and what torch itself refuses to fuse,
    which an update of a single number tells.
How it is undone:
    Groups and defaults have what the script gave them, counts are where they were, and go on. That the training has learned with other
    rounding stays.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.frameworks.torch.inside._scaling import when_scaling
from slowstep.record.experiment.lever import NUMERICS, Change, Implementation, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.made_calls import OPTIMIZER
from slowstep.record.experiment.training import Training
from slowstep.record.patch import replace
from slowstep.record.steps.by_hand import ByHand

KINDS: Final = ("Adam", "AdamW", "SGD", "Adagrad")
# What the constructor would make of fused=True. It takes no foreach=True beside it.
FUSED: Final = {"fused": True, "foreach": False}
_COUNT: Final = "step"
# So many updates of each optimizer are looked at before it is on.
_ENOUGH: Final = 2

BY_HAND: Final = "the script updates by hand"
ANOTHER_KIND: Final = f"{{kind}} is none of {', '.join(KINDS)}, as torch has them"
ALREADY: Final = "the optimizer is fused already"
CLOSURE: Final = "the optimizer calls a closure, in which code of the script's runs"
SPARSE: Final = "a gradient is sparse"
SCALED: Final = "the script uses a GradScaler, which leaves a pass of its own to fused optimizers"
COMPILED: Final = "the update was compiled, and would be compiled again"
NO_PLAIN: Final = "a parameter is a {kind}, which may be a rank's part of a tensor"
OPTION: Final = "the optimizer is {option}"
TOO_OLD: Final = "the installed torch has no fused {kind}"
REFUSED: Final = "torch does not fuse it ({said})"


class Fused(Change):
    """Switches all optimizers of the training; `effect` counts the steps at whose end they still were fused."""

    def __init__(self, optimizers: list[Any]) -> None:
        self._switched = [_Switched(optimizer) for optimizer in optimizers]
        self._kinds = sorted({type(optimizer).__name__ for optimizer in optimizers})
        self._wanted = _ENOUGH * len(optimizers)
        self._seen = 0
        self._unfit: str | None = None
        self._looks = [optimizer.register_step_pre_hook(self._look).remove for optimizer in optimizers]
        torch: Any = sys.modules["torch"]
        self._looks.append(replace(torch.amp.GradScaler, "scale", when_scaling(torch.amp.GradScaler.scale, self._scaled)))

    def ready(self) -> bool:
        """Whether whole updates were seen. Raises NotApplicable where one of them is none that could be fused."""
        if self._unfit is not None:
            raise NotApplicable(self._unfit)
        if self._seen < self._wanted:
            return False
        self._stop_looking()
        return True

    def on(self) -> None:
        """Fuse them."""
        for each in self._switched:
            each.on()

    def off(self) -> None:
        """Have them as the script made them."""
        for each in self._switched:
            each.off()

    def remove(self) -> None:
        """Look at no update any more."""
        self._stop_looking()

    def each_step(self) -> None:
        """See whether the script has given its groups again meanwhile, as where it reads a checkpoint."""
        self.effect += all(each.is_fused() for each in self._switched)

    def facts(self) -> Mapping[str, Any]:
        """Which kinds of optimizers they are, and the argument that a script gives them."""
        return {"optimizers": self._kinds, "arguments": {"fused": True}, "arguments_of": OPTIMIZER}

    def _stop_looking(self) -> None:
        while self._looks:
            self._looks.pop()()

    def _look(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # The first of the arguments is the optimizer itself.
        if len(args) > 1 or kwargs.get("closure") is not None:
            self._unfit = CLOSURE
        elif any(each.grad is not None and each.grad.is_sparse for each in _parameters(optimizer)):
            self._unfit = SPARSE
        self._seen += 1

    def _scaled(self, scaler: Any, outputs: Any) -> None:
        self._unfit = SCALED


class _Switched:
    """One optimizer, and while it is switched what its groups, its defaults and its counts were. Else nothing of it is held."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._defaults: dict[str, Any] = {}
        self._groups: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._counts: dict[Any, tuple[Any, Any]] = {}

    def on(self) -> None:
        optimizer = self._optimizer()
        if optimizer is None:
            return
        self._defaults = _given(optimizer.defaults)
        self._groups = [(group, _given(group)) for group in optimizer.param_groups]
        for options in (optimizer.defaults, *optimizer.param_groups):
            options.update(FUSED)
        torch: Any = sys.modules["torch"]
        for parameter, state in _counting(optimizer):
            count = state[_COUNT]
            self._counts[parameter] = (count.device, count.dtype)
            state[_COUNT] = count.to(device=parameter.device, dtype=torch.float32)

    def off(self) -> None:
        optimizer, groups, counts = self._optimizer(), self._groups, self._counts
        self._groups, self._counts = [], {}
        if optimizer is None or not groups:
            return
        optimizer.defaults.update(self._defaults)
        for group in optimizer.param_groups:
            given = next((given for known, given in groups if known is group), None)
            if given is not None or group.get("fused"):
                # One that was added meanwhile has taken the defaults as they were then.
                group.update(self._defaults if given is None else given)
        for parameter, state in _counting(optimizer):
            device, dtype = counts.get(parameter) or _first_count()
            state[_COUNT] = state[_COUNT].to(device=device, dtype=dtype)

    def is_fused(self) -> bool:
        optimizer = self._optimizer()
        return optimizer is None or all(group.get("fused") for group in optimizer.param_groups)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in FUSED if name in options}


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _counting(optimizer: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Parameters with a state that counts their updates, in a tensor. (Asked by index, a state would be made.)"""
    torch: Any = sys.modules["torch"]
    states = [(parameter, optimizer.state.get(parameter) or {}) for parameter in _parameters(optimizer)]
    return [(parameter, state) for parameter, state in states if isinstance(state.get(_COUNT), torch.Tensor)]


def _first_count() -> tuple[Any, Any]:
    """Where torch begins to count a parameter's updates, and in which type, where they are not fused."""
    torch: Any = sys.modules["torch"]
    return "cpu", torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable with the reason."""
    optimizers = training.optimizers
    if not optimizers or any(isinstance(each, ByHand) for each in optimizers):
        raise NotApplicable(BY_HAND)
    unfused = [each for each in optimizers if not all(group.get("fused") for group in getattr(each, "param_groups", [{}]))]
    if not unfused:
        raise NotApplicable(ALREADY)
    if reason := next(filter(None, map(_unable, unfused)), None):
        raise NotApplicable(reason)
    return Fused(unfused)


def _unable(optimizer: Any) -> str | None:
    """Why an optimizer cannot be switched."""
    torch: Any = sys.modules["torch"]
    kind = type(optimizer)
    if kind not in [getattr(torch.optim, name, None) for name in KINDS]:
        return ANOTHER_KIND.format(kind=kind.__name__)
    if option := next((name for group in optimizer.param_groups for name in ("differentiable", "capturable") if group.get(name)), None):
        return OPTION.format(option=option)
    if other := next((type(each) for each in _parameters(optimizer) if type(each) not in (torch.Tensor, torch.nn.Parameter)), None):
        return NO_PLAIN.format(kind=other.__name__)
    if FRAMEWORK.has_compiled() and any(map(FRAMEWORK.is_compiled, _wrapped(kind.step))):
        return COMPILED
    if "fused" not in optimizer.defaults:
        return TOO_OLD.format(kind=kind.__name__)
    said = _said_by_torch(optimizer)
    return None if said is None else REFUSED.format(said=said)


def _wrapped(function: Any) -> list[Any]:
    """A function, and what it wraps."""
    found = [function]
    while (function := getattr(function, "__wrapped__", None)) is not None:
        found.append(function)
    return found


def _said_by_torch(optimizer: Any) -> str | None:
    """What torch says where such an optimizer is to update a number of its own; None where it does."""
    torch: Any = sys.modules["torch"]
    kind = type(optimizer)
    # Not as it is called: hooks of everybody's would take it for an update of the training.
    step = _wrapped(kind.step)[:2][-1]
    for group in optimizer.param_groups:
        options = {name: group[name] for name in optimizer.defaults if name in group}
        for device, dtype in {(each.device, each.dtype) for each in group["params"]}:
            number = torch.zeros(1, device=device, dtype=dtype)
            number.grad = torch.zeros_like(number)
            try:
                step(kind([{**options, **FUSED, "params": [number]}]))
            except Exception as error:  # torch's own word, whatever it is
                return str(error).partition("\n")[0] or type(error).__name__
    return None


IMPLEMENTATION = Implementation(lever=Lever(name="fused", changes=frozenset({NUMERICS})), prepare=prepare)
