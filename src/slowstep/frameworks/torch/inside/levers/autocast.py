"""`torch.autocast` around the model and its loss."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._forward import Forward
from slowstep.levers.autocast import DTYPES, LEVER, read_type
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.framework import has_compiled
from slowstep.record.steps.by_hand import ByHand

_DEEPEST: Final = 6


def in_float32(result: Any, depth: int = 0) -> Any:
    """The same tensors, lists, tuples and mappings, with 16-bit numbers widened; anything else as it is."""
    torch: Any = sys.modules["torch"]
    if isinstance(result, torch.Tensor):
        return result.float() if result.dtype in (torch.bfloat16, torch.float16) else result
    if depth >= _DEEPEST:
        return result
    if isinstance(result, dict):
        return _mapping(result, depth)
    if isinstance(result, (list, tuple)):
        return _sequence(result, depth)
    return result


def _sequence(result: Any, depth: int) -> Any:
    wide = [in_float32(part, depth + 1) for part in result]
    if all(new is old for new, old in zip(wide, result, strict=True)):
        return result
    # A named tuple takes its fields one by one.
    return type(result)(*wide) if hasattr(result, "_fields") else type(result)(wide)


def _mapping(result: dict[Any, Any], depth: int) -> Any:
    # Changed in its place: outputs of transformers are data classes as well, and know how they are assigned to.
    for key, value in list(result.items()):
        wide = in_float32(value, depth + 1)
        if wide is not value:
            result[key] = wide
    return result


class Autocast(Change):
    """Enters the context before a forward and leaves it before a backward; `effect` counts the forwards under it.

    `value` is that of the lever. `device` is None until whole steps were seen, where no optimizer tells it.
    """

    def __init__(self, training: Training, value: str, device: str | None) -> None:
        self._value, self._device = value, device
        self._framework = training.recorder.framework
        self._context: Any = None
        self._broken: Exception | None = None
        self._forward = Forward(training, around=self._under, before_backward=self._leave)

    def ready(self) -> bool:
        """Whether whole steps were seen without autocast or scaler. Raises NotApplicable where the script uses them."""
        if self._forward.seen_precision:
            raise NotApplicable(f"the script uses {self._forward.seen_precision} itself")
        if self._forward.seen_steps < Forward.ENOUGH_STEPS:
            return False
        if self._device is None:
            unknown = "the script updates by hand, and the modules that it calls show no parameters"
            trained = (each for module in self._forward.modules for each in module.parameters() if each.requires_grad)
            self._device = _device_of(self._framework.describe_parameters(trained), self._value, unknown)
        return True

    def on(self) -> None:
        """From the next forward on."""
        self._forward.is_on = True

    def off(self) -> None:
        """Leave the context where a forward had no backward."""
        self._forward.is_on = False
        self._leave()

    def each_step(self) -> None:
        """Leave the context where a forward had no backward. Raises what the model raised under it."""
        self._leave()
        if self._broken is not None:
            raise self._broken

    def remove(self) -> None:
        """Put back what was replaced."""
        self._forward.remove()

    def facts(self) -> Mapping[str, Any]:
        """Where, and in which type."""
        return {"autocast_device": self._device, "autocast_dtype": DTYPES[self._value]}

    def _under(self, forward: Any) -> Any:
        """The outermost forward: under the context, and without it where the model does not bear it."""
        error: Exception | None = None
        try:
            if self._context is None:
                torch: Any = sys.modules["torch"]
                context: Any = torch.autocast(self._device, dtype=getattr(torch, DTYPES[self._value]))
                context.__enter__()
                self._context = context
            result = in_float32(forward())
            self.effect += 1
            return result
        except Exception as raised:  # Whatever the model cannot bear under it, it may well bear without.
            error = raised
        self._leave()
        self._forward.is_on = False
        result = forward()
        # The model by itself works: it was the change. The arm is given up at the next boundary.
        self._broken = error
        return result

    def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            context.__exit__(None, None, None)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises ValueError for another value than bf16 and fp16, NotApplicable with the reason where it has no meaning."""
    value = read_type(spec)
    if has_compiled():
        raise NotApplicable("the training is compiled, and would be compiled again under autocast")
    if isinstance(training.optimizer, ByHand):
        return Autocast(training, value, None)
    return Autocast(
        training,
        value,
        _device_of(training.recorder.framework.describe_optimizer(training.optimizer), value, "the optimizer does not show its parameters"),
    )


def _device_of(told: Mapping[str, Any], value: str, unknown: str) -> str:
    """The kind of device that parameters are on, as they are described. Raises NotApplicable, with `unknown` where they are not."""
    device, dtypes = told["device"], told["dtypes"]
    if not dtypes or device is None:
        raise NotApplicable(unknown)
    if set(dtypes) != {"float32"}:
        raise NotApplicable(f"not all parameters are float32 ({', '.join(sorted(dtypes))})")
    if reason := _unable(device, value):
        raise NotApplicable(reason)
    return str(device)


def _unable(device: str, value: str) -> str | None:
    torch: Any = sys.modules["torch"]
    if device not in ("cpu", "cuda"):
        return f"the parameters are on {device}"
    if device == "cpu":
        return "on a processor only bf16 is worth a try" if value == "fp16" else None
    if value == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return "the accelerator has no bfloat16: try autocast=fp16"
    return None


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
