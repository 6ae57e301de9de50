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

from slowstep.frameworks.keras.inside._framework import FRAMEWORK, TENSORFLOW, backend_name
from slowstep.frameworks.tensorflow.inside._dispatches import EAGER_RUN, RUNS_EAGERLY, runs_functions_eagerly
from slowstep.record.experiment.lever import NUMERICS, Change, Implementation, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

# Traced, and once more where what the first call made is different: from then on a step is like the next.
_SETTLING: Final = 3
_FUNCTION: Final = "train_function"
_OWN: Final = "keras.src."


class RunEagerlyOff(Change):
    """Exchanges the train function of the model whose `fit` runs; `effect` counts the calls of the traced one while it is on.

    Some batches are trained by it before it is ready: to trace takes seconds, which no block is to hold.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._traced: Any = self._built()
        self._original: Any = None
        self._calls, self._is_ready = 0, False
        self._broken: Exception | None = None
        # How the input ends is no fault of the function's.
        self._ends = (StopIteration, sys.modules["tensorflow"].errors.OutOfRangeError)
        self.on()

    def ready(self) -> bool:
        """Whether it is traced. Raises NotApplicable where it cannot be."""
        if not self._is_ready:
            self.each_step()
            self._is_ready = self._calls >= _SETTLING
            if self._is_ready:
                self.off()
        return self._is_ready

    def on(self) -> None:
        """From the next batch on."""
        self._original, self._calls = getattr(self._model, _FUNCTION), 0
        setattr(self._model, _FUNCTION, self._call)

    def off(self) -> None:
        """Put the function back, unless Keras or the script has made another one meanwhile."""
        if self._original is not None and vars(self._model).get(_FUNCTION) == self._call:
            setattr(self._model, _FUNCTION, self._original)
        self._original = None

    def each_step(self) -> None:
        """Raises NotApplicable where the step could not be traced."""
        if self._broken is not None:
            raise NotApplicable(f"the step cannot be traced as it is ({type(self._broken).__name__})")

    def remove(self) -> None:
        """Put the function back where it was never ready, and keep nothing of the other one."""
        self.off()
        self._traced = None

    def _call(self, iterator: Any) -> Any:
        original = self._original
        if self._broken is None and original is not None:
            try:
                with _traced():
                    result = self._traced(iterator)
                self._calls += 1
                self.effect += self._is_ready
                return result
            except self._ends:
                raise
            except Exception as error:  # whatever cannot be traced goes on as it was; the arm is given up at the next boundary
                self._broken = error
        return original(iterator)

    def _built(self) -> Any:
        model = self._model
        before = model.run_eagerly
        model.run_eagerly = False
        try:
            return model._make_function(model.train_step)
        finally:
            model.run_eagerly = before


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
    running = None if FRAMEWORK.running is None else FRAMEWORK.running()
    model = None if running is None else vars(running).get("_model")
    if model is None or backend_name() != TENSORFLOW:
        raise NotApplicable("no fit of Keras on TensorFlow runs: in a loop of the script's own put tf.function around the step")
    if not (model.run_eagerly or runs_functions_eagerly()):
        raise NotApplicable("the step is a traced function already")
    kind = type(model)
    if not all(
        str(getattr(getattr(kind, name, None), "__module__", "")).startswith(_OWN) for name in ("make_train_function", "_make_function")
    ):
        raise NotApplicable("the model makes its train function itself")
    if int(getattr(model.distribute_strategy, "num_replicas_in_sync", 1)) != 1:
        raise NotApplicable("several replicas train in it")
    return RunEagerlyOff(model)


IMPLEMENTATION = Implementation(lever=Lever(name="run-eagerly-off", changes=frozenset({NUMERICS}), long_steps="perhaps"), prepare=prepare)
