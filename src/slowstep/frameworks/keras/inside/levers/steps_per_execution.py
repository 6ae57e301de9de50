"""Keras' fit trains on several batches in one call.

It is for `compile(steps_per_execution=N)` with TensorFlow on a processor.

What it changes:
    The function that `fit` calls: while the lever is on it is one that Keras has built as if `steps_per_execution` were N, from the same
    `train_step`, and `fit` takes the numbers of N batches at once. Callbacks are called once for these N: `on_train_batch_begin` with the
    number of the first and `on_train_batch_end` with that of the last and its logs, as Keras does it. The end of the data ends the last
    call of an epoch. Before the first block two such calls are made, the first of which traces the function.
What it answers:
    What the training gains where Python is between N steps once: the loop of `fit`, callbacks, logs that are read, starting a graph. The
    updates are the same ones. A callback that does something for every batch does it once in N, and one that asks for a batch's number
    (batch % 10 == 0) may meet none of those: whether that is wanted the script's author knows.
When it has no meaning:
    A loop of the script's own, a model that makes its train function itself or runs eagerly, several replicas, calls that return before
    their work is done, and Keras on PyTorch, which takes no other value than 1. With JAX, Keras (3.15) makes the same calls one after the
    other. Where the script has M itself N is to be a multiple of M. Where `steps_per_epoch` ends an epoch before its data end, batches
    beyond the last N are trained on one by one: Keras would train on more of them than were asked for.
How it is undone:
    The function that was there is put back, and batches come one by one; nothing else was changed.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.frameworks.keras.inside._epochs import epochs_of
from slowstep.frameworks.keras.inside._framework import FRAMEWORK, TENSORFLOW
from slowstep.frameworks.keras.inside._grouped_function import GroupedFunction, check_length
from slowstep.frameworks.keras.inside._train_functions import begun, having, traced_model
from slowstep.levers._count import count_of
from slowstep.record.experiment.lever import Change, Implementation, Lever, LeverSpec, NotApplicable, OnLongSteps
from slowstep.record.experiment.training import Training

_FEWEST: Final = 2
NO_FIT: Final = "no fit of Keras on TensorFlow runs: in a loop of the script's own make several steps inside one tf.function"
EAGER: Final = "the step runs eagerly, and what one call makes of several batches is the same (try run-eagerly-off)"
ASYNCHRONOUS: Final = "calls return before their work is done, and blocks of calls that make different numbers of steps cannot be compared"
OWN: Final = "the script makes {own} steps in a call itself: give a multiple of that"


class StepsPerExecution(GroupedFunction):
    """The train function of a model whose `fit` runs makes so many steps; `effect` counts its calls while it is on."""

    def __init__(self, training: Training, model: Any, steps: int, epochs: Any) -> None:
        own = int(model.steps_per_execution)
        super().__init__(training, model, {"steps_per_execution": steps}, epochs, steps=steps, turns=steps // own)
        # Of a call that an operation has ended nobody knows how many updates it has made: none may be made again.
        self._passed_on = (StopIteration, sys.modules["tensorflow"].errors.OpError)

    def _called(self, iterator: Any) -> Any:
        with having(self._model, self._attributes):
            return super()._called(iterator)


def read_steps(spec: LeverSpec) -> int:
    """The N. Raises ValueError where it is none, or under 2."""
    return count_of(spec, least=_FEWEST)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no `fit` of Keras on TensorFlow runs whose steps one call could make."""
    model, steps = traced_model(NO_FIT, EAGER), read_steps(spec)
    if FRAMEWORK.facts().get("asynchronous"):
        raise NotApplicable(ASYNCHRONOUS)
    own = int(model.steps_per_execution)
    if steps % own or steps == own:
        raise NotApplicable(OWN.format(own=own))
    epochs = epochs_of(model)
    if epochs is None:
        raise NotApplicable(NO_FIT)
    check_length(epochs, steps)
    return begun(StepsPerExecution(training, model, steps, epochs))


LEVER = Lever(name="steps-per-execution", takes="N", long_steps=OnLongSteps.PERHAPS, read=read_steps)
IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, computes_with=TENSORFLOW)
