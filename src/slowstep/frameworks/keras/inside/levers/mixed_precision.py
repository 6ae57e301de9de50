"""Keras' fit computes in 16 bits, with weights in 32.

It is for `keras.config.set_dtype_policy("mixed_bfloat16")` before the model is built, with TensorFlow.

What it changes:
    The function that `fit` calls for each batch: while the lever is on it is one that Keras has built while the layers had the policy
    mixed_bfloat16 in the place of float32. Weights, the optimizer's state, losses and metrics are float32 as they were; layers cast what
    they are given. Before the first block three batches are trained on by it: it is traced then, and once more for batches of another size.
    Where XLA compiles the step the last batch of an epoch is trained on as it was.
What it answers:
    What mixed precision gains, on a processor with 16-bit instructions or an accelerator. Losses are compared, for it changes the numbers.
    Time is what is compared, of a training all of whose layers compute so: nothing is said of how accurate it becomes. Keras advises to
    leave the last layer float32 (`dtype="float32"`): the fix should do so, and that layer then takes what it took.
When it has no meaning:
    A loop of the script's own, layers that have another policy than float32 already (mixed, float64, quantized), a step that runs eagerly,
    a model that makes its train function itself, several replicas. A model that does not bear it (it adds numbers of 32 bits to those of a
    layer by itself) is trained as it was, and the lever is given up. float16 is not tried: it needs a scaled loss, and with it another
    optimizer. Without 16-bit instructions it is slower, and that is measured.
How it is undone:
    The function that was there is put back; it was not changed. The layers have had their other policy only while it was traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from slowstep.frameworks.keras.inside._but_the_last import ButTheLast
from slowstep.frameworks.keras.inside._framework import TENSORFLOW
from slowstep.frameworks.keras.inside._train_functions import (
    SETTLING,
    TrainFunction,
    TrainStep,
    begun,
    traced_model,
)
from slowstep.record.experiment.lever import NUMERICS, Change, Implementation, Lever, LeverSpec, NotApplicable, OnLongSteps
from slowstep.record.experiment.training import Training

_OWN: Final = "float32"
_MIXED: Final = "mixed_bfloat16"
NO_FIT: Final = "no fit of Keras on TensorFlow runs, and in a loop of the script's own layers are called by the script"
EAGER: Final = "the step runs eagerly, and layers would have to be changed in each one (try run-eagerly-off)"
OTHER_POLICY: Final = "layers have another policy than float32 already ({})"
NO_LAYER: Final = "no layer of the model computes in float32"
NOT_BORNE: Final = "the model does not bear it ({})"


@contextmanager
def _in_16_bits(layers: list[Any]) -> Iterator[None]:
    """The layers have the mixed policy inside."""
    before = [layer.dtype_policy for layer in layers]
    try:
        for layer in layers:
            layer.dtype_policy = _MIXED
        yield
    finally:
        for layer, policy in zip(layers, before, strict=True):
            layer.dtype_policy = policy


def _step_of(model: Any, layers: list[Any]) -> TrainStep:
    """Its step, whose Python runs only while it is traced."""

    def step(data: Any) -> Any:
        with _in_16_bits(layers):
            return model.train_step(data)

    return step


class _OfOtherPolicy(TrainFunction):
    """A train function whose layers have another policy. Says where the model does not bear that."""

    def _why(self, error: Exception) -> str:
        return NOT_BORNE.format(type(error).__name__)


class MixedPrecision(_OfOtherPolicy):
    """The train function whose layers compute in 16 bits."""

    def __init__(self, training: Training, model: Any, layers: list[Any]) -> None:
        super().__init__(training, model, {}, settling=SETTLING, step=_step_of(model, layers))


class CompiledMixedPrecision(_OfOtherPolicy, ButTheLast):
    """The same, compiled by XLA as it was."""

    def __init__(self, training: Training, model: Any, layers: list[Any]) -> None:
        ButTheLast.__init__(self, training, model, {}, step=_step_of(model, layers))


def float_layers(model: Any) -> list[Any]:
    """Those that compute in float32, the model among them. Raises NotApplicable where one computes otherwise, or there is none."""
    layers = list(model._flatten_layers())
    others = {layer.dtype_policy.name for layer in layers if _is_other(layer.dtype_policy)}
    if others:
        raise NotApplicable(OTHER_POLICY.format(", ".join(sorted(others))))
    found = [layer for layer in layers if layer.dtype_policy.name == _OWN]
    if not any(layer.trainable_variables for layer in found):
        raise NotApplicable(NO_LAYER)
    return found


def _is_other(policy: Any) -> bool:
    """Those of whole numbers and of texts stay as they are."""
    return policy.name != _OWN and ("float" in str(policy.compute_dtype) or policy.quantization_mode is not None)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no `fit` of Keras on TensorFlow runs whose layers could compute in 16 bits, and do not."""
    model = traced_model(NO_FIT, EAGER)
    kind = CompiledMixedPrecision if model.jit_compile else MixedPrecision
    return begun(kind(training, model, float_layers(model)))


IMPLEMENTATION = Implementation(
    lever=Lever(name="mixed-precision", changes=frozenset({NUMERICS}), long_steps=OnLongSteps.PERHAPS),
    prepare=prepare,
    computes_with=TENSORFLOW,
)
