"""Batches of another size in Keras' `fit`: several of those that it reads, trained on as one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.keras.inside._batch_sizes import CountedSizes
from slowstep.frameworks.keras.inside._epochs import epochs_of
from slowstep.frameworks.keras.inside._framework import FRAMEWORK, TENSORFLOW
from slowstep.frameworks.keras.inside._grouped_function import GroupedFunction, check_length
from slowstep.frameworks.keras.inside._train_functions import begun, model_in_fit, replicas_of, traced_model
from slowstep.frameworks.tensorflow.inside._input.asked import AskedIterators, Asking
from slowstep.frameworks.tensorflow.inside.fetches import CountedFetches
from slowstep.levers._input.size_peaks import SizePeaks
from slowstep.levers.batch_size import LEVER, read_batch_size
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

NO_FIT: Final = "no fit of Keras on TensorFlow runs, and a loop of the script's own has its own batches"
EAGER: Final = "the step runs eagerly, and fetches its batches in Python (try run-eagerly-off)"
TOGETHER: Final = "the script makes {own} steps in a call itself"
DIVIDED: Final = "each batch is divided among {replicas} replicas, each of which fetches its part: none can join several batches of all"
NO_MULTIPLE: Final = "batches hold {own} samples, and several of these are joined: give a multiple of that"
SAME: Final = "batches hold {own} samples already"
NOT_JOINED: Final = "the model does not take several of its batches as one ({})"
SHAPES: Final = "samples of one batch differ in shape from those of the next, as where each is padded by itself: several cannot be joined"
NO_MEMORY: Final = "out of memory at {size} samples ({error})"
SHORTER: Final = "; the epoch in which that was tried is {batches} batches shorter"
# What operations are called that join: an error that one of them raises names it.
JOINING: Final = "slowstep_joining"
ASYNCHRONOUS: Final = "calls return before their work is done, and blocks of calls of different numbers of batches cannot be compared"


class JoinedBatches(GroupedFunction):
    """The train function for so many batches at once, which its step gets as one."""

    def __init__(self, training: Training, model: Any, size: int, batches: int, epochs: Any) -> None:
        self._size, self._lacks_one = size, False
        self._asked = training.recorder.shared(AskedIterators)
        super().__init__(training, model, {}, epochs, steps=batches, turns=batches)
        self._asked.join(self)

    def asks(self, asking: Asking) -> None:
        """A call is about to be made. Of data that Keras has counted itself the last batch is the fetch that found nothing."""
        self._lacks_one = asking.is_last and asking.may_be_last

    def remove(self) -> None:
        """Put back what there was."""
        super().remove()
        self._asked.leave(self)

    def _made(self) -> Any:
        return _joining(super()._made(), self._most)

    def _is_wanted(self) -> bool:
        # What is left of an epoch is trained on as it was: what is fetched with a batch that is not there would be lost.
        return self._groups.turns == self._most and not self._lacks_one

    def _why(self, error: Exception) -> str:
        errors, name = sys.modules["tensorflow"].errors, type(error).__name__
        if not isinstance(error, errors.OpError):
            # It was not traced, and nothing was fetched.
            return NOT_JOINED.format(name)
        shorter = SHORTER.format(batches=self._most)
        if isinstance(error, errors.ResourceExhaustedError):
            return NO_MEMORY.format(size=self._size, error=name) + shorter
        return (SHAPES if f"node {JOINING}" in str(error) else NOT_JOINED.format(name)) + shorter


class JoinedSize(Change):
    """Joins batches once their own size is known, with the peak of memory of steps as they are."""

    def __init__(self, training: Training, model: Any, size: int) -> None:
        self._training, self._model, self._size = training, model, size
        self._sizes = CountedSizes(training.recorder.shared(CountedFetches))
        self._peaks = SizePeaks(training.recorder.framework.device_memory())
        self._own: int | None = None
        self._joined: JoinedBatches | None = None

    @property
    def effect(self) -> int:  # type: ignore[override]
        """Calls that have trained on a joined batch."""
        return 0 if self._joined is None else self._joined.effect

    def ready(self) -> bool:
        """Whether the call for joined batches is traced. Raises NotApplicable where there is none of this size."""
        if self._joined is not None:
            return self._joined.ready()
        self._sizes.look()
        if self._peaks.look():
            self._begin(self._sizes.usual)
        return False

    def _begin(self, own: int) -> None:
        if self._size == own or self._size % own:
            raise NotApplicable((SAME if self._size == own else NO_MULTIPLE).format(own=own))
        self._peaks.check(self._size, self._size / own)
        epochs = epochs_of(self._model)
        if epochs is None:
            raise NotApplicable(NO_FIT)
        check_length(epochs, self._size // own)
        self._joined = JoinedBatches(self._training, self._model, self._size, self._size // own, epochs)
        begun(self._joined)
        self._own = self._training.batch_samples = own

    def on(self) -> None:
        """From the next batch on."""
        self._peaks.begin()
        self._change().on()

    def off(self) -> None:
        """Train on each batch by itself again."""
        if self._joined is not None:
            self._joined.off()
            self._peaks.end()

    def each_step(self) -> None:
        """Raises NotApplicable where batches could not be joined."""
        self._change().each_step()

    def settled(self) -> bool:
        """Whether a joined batch was trained on since it is on."""
        return self._change().settled()

    def remove(self) -> None:
        """Put back what there was."""
        if self._joined is not None:
            self._joined.remove()

    def facts(self) -> Mapping[str, Any]:
        """The sizes, and the peak of memory at each (bytes; of the device or of this process)."""
        return {"batch_size": self._size, "own_batch_size": self._own, **self._peaks.facts()}

    def _change(self) -> JoinedBatches:
        if self._joined is None:
            raise NotApplicable(NO_FIT)
        return self._joined


def _joining(made: Any, batches: int) -> Any:
    """What fetches so many batches, and calls a train function of Keras' with all of them as one."""
    tf = sys.modules["tensorflow"]

    # It passes for Keras' own: who looks at calls of functions that train finds what it stands for.
    @functools.wraps(made)
    def joined(iterator: Any) -> Any:
        parts = [iterator.get_next() for _ in range(batches)]
        return made([tf.nest.map_structure(_joined, *parts)])

    return tf.function(joined, autograph=False, reduce_retracing=True)


def _joined(*parts: Any) -> Any:
    tf = sys.modules["tensorflow"]
    if isinstance(parts[0], tf.experimental.Optional):
        # Nothing, as where no sample has a weight.
        return parts[0]
    if isinstance(parts[0], tf.SparseTensor):
        return tf.sparse.concat(0, list(parts), name=JOINING)
    return tf.concat(parts, 0, name=JOINING)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no `fit` of Keras on TensorFlow runs whose batches one call could join."""
    if (replicas := replicas_of(model_in_fit(NO_FIT))) != 1:
        raise NotApplicable(DIVIDED.format(replicas=replicas))
    model, size = traced_model(NO_FIT, EAGER), read_batch_size(spec)
    if FRAMEWORK.facts().get("asynchronous"):
        raise NotApplicable(ASYNCHRONOUS)
    if (own := int(model.steps_per_execution)) != 1:
        raise NotApplicable(TOGETHER.format(own=own))
    return JoinedSize(training, model, size)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, computes_with=TENSORFLOW)
