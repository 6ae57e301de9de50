"""XLA compiles the step of Keras' fit.

It is for `compile(jit_compile=True)` with TensorFlow, which Keras leaves out by default where there are only processors.

What it changes:
    The function that `fit` calls for each batch: while the lever is on it is one that Keras has built as if `jit_compile` were True, from
    the same `train_step`. Before the first block three batches are trained on by it: it is traced and compiled then. The last batch of an
    epoch is trained on as it was: it may be of another size, for which XLA would compile once more, within a block. Of data whose length
    nobody knows that batch is known from the second epoch on: there is no block before.
What it answers:
    What the training gains with XLA: on a processor little, or nothing, where the step is of large products; more where it is of many
    operations element by element. Losses are compared: operations are merged, and rounding differs.
When it has no meaning:
    A loop of the script's own, a step that is compiled so already (with JAX Keras does it by itself) or runs eagerly, layers that XLA does
    not support, a model that makes its train function itself, several replicas. A step that XLA cannot compile is made as it was,
    of the next batch, and the lever is given up: that epoch is one step shorter. Batches of many sizes are each compiled when they first
    come, and that counts.
How it is undone:
    The function that was there is put back; it was not changed.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from slowstep.frameworks.keras.inside._but_the_last import ButTheLast
from slowstep.frameworks.keras.inside._framework import JAX, TENSORFLOW, backend_name
from slowstep.frameworks.keras.inside._train_functions import begun, running_model, traced_model
from slowstep.record.experiment.lever import NUMERICS, Change, Implementation, Lever, LeverSpec, NotApplicable, OnLongSteps
from slowstep.record.experiment.training import Training

_TRAINER: Final = "keras.src.trainers.trainer"
NO_FIT: Final = "no fit of Keras on TensorFlow runs: in a loop of the script's own give tf.function jit_compile=True"
COMPILED: Final = "XLA compiles the step already"
EAGER: Final = "the step runs eagerly, and is no function that could be compiled (try run-eagerly-off)"
CANNOT_BE_COMPILED: Final = "XLA cannot compile the step ({})"
NO_KERNEL: Final = "it has nothing for {}"
UNSUPPORTED: Final = "XLA does not support a layer of the model, or its operations are to be deterministic"
# As TensorFlow 2.21 says it, of the first that it meets.
_OPERATION: Final = re.compile(r"Detected unsupported operations when trying to compile graph .*?: (\w+) \(")


class JitCompile(ButTheLast):
    """The train function compiled by XLA."""

    def __init__(self, training: Training, model: Any) -> None:
        super().__init__(training, model, {"jit_compile": True})

    def _why(self, error: Exception) -> str:
        found = _OPERATION.search(str(error))
        return CANNOT_BE_COMPILED.format(type(error).__name__ if found is None else NO_KERNEL.format(found[1]))


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no `fit` of Keras on TensorFlow runs that XLA could compile, and does not."""
    if backend_name() == JAX and _is_compiled(running_model()):
        raise NotApplicable(COMPILED)
    model = traced_model(NO_FIT, EAGER)
    if model.jit_compile:
        raise NotApplicable(COMPILED)
    if not sys.modules[_TRAINER].model_supports_jit(model):
        raise NotApplicable(UNSUPPORTED)
    return begun(JitCompile(training, model))


def _is_compiled(model: Any) -> bool:
    return model is not None and bool(model.jit_compile) and not model.run_eagerly


IMPLEMENTATION = Implementation(
    lever=Lever(name="jit-compile", changes=frozenset({NUMERICS}), long_steps=OnLongSteps.PERHAPS),
    prepare=prepare,
    computes_with=TENSORFLOW,
)
