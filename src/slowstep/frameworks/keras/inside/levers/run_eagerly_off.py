"""Keras' fit traces its step, which it ran eagerly.

It is for `compile(run_eagerly=True)` and `tf.config.run_functions_eagerly(True)` with TensorFlow.

What it changes:
    The function that `fit` calls for each batch: while the lever is on it is one that Keras has built as if `run_eagerly` were False, from
    the same `train_step`. Before the first block three batches are trained by it: it is traced then, and once more for batches of
    another size, a step that takes seconds wherever it comes.
What it answers:
    What the training gains without run_eagerly=True. Losses are compared: rounding may differ where operations are merged.
When it has no meaning:
    A loop of the script's own (put tf.function around its step), a `fit` that is compiled already, a model that makes its train function
    itself, several replicas. A step that looks at values (float(), .numpy()) cannot be traced: the lever is given up, and the step is
    made as it was. What Python does in the step (prints, counters, lists that grow) it does when it is traced, and not for each batch.
How it is undone:
    The function that was there is put back; it was not changed. What Python did when it was traced stays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from slowstep.frameworks.keras.inside._framework import TENSORFLOW
from slowstep.frameworks.keras.inside._train_functions import SETTLING, TrainFunction, begun, check_exchangeable, model_in_fit
from slowstep.frameworks.tensorflow.inside._dispatches import EAGER_RUN, RUNS_EAGERLY, runs_functions_eagerly
from slowstep.record.experiment.lever import NUMERICS, Change, Implementation, Lever, LeverSpec, NotApplicable, OnLongSteps
from slowstep.record.experiment.training import Training

NO_FIT: Final = "no fit of Keras on TensorFlow runs: in a loop of the script's own put tf.function around the step"


@contextmanager
def _traced() -> Iterator[None]:
    """Functions are traced inside, whatever the script has asked for."""
    module: Any = sys.modules.get(EAGER_RUN)
    before = getattr(module, RUNS_EAGERLY, None)
    if before is not True:
        yield
        return
    setattr(module, RUNS_EAGERLY, False)
    try:
        yield
    finally:
        setattr(module, RUNS_EAGERLY, True)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no `fit` of Keras on TensorFlow runs eagerly."""
    model = model_in_fit(NO_FIT)
    if not (model.run_eagerly or runs_functions_eagerly()):
        raise NotApplicable("the step is a traced function already")
    check_exchangeable(model)
    return begun(TrainFunction(training, model, {"run_eagerly": False}, settling=SETTLING, traced=_traced))


IMPLEMENTATION = Implementation(
    lever=Lever(name="run-eagerly-off", changes=frozenset({NUMERICS}), long_steps=OnLongSteps.PERHAPS),
    prepare=prepare,
    computes_with=TENSORFLOW,
)
