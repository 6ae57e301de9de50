"""What all levers of a pipeline of tf.data have in common: something else gives the batches while they are on, and the pipeline rests."""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._handed import HandedIterators, resource_of
from slowstep.frameworks.tensorflow.inside._input.asked import AskedIterators, Asking
from slowstep.frameworks.tensorflow.inside._input.kept import KeptBatches
from slowstep.frameworks.tensorflow.inside._input.readiness import state_of
from slowstep.frameworks.tensorflow.inside._input.resources import next_of
from slowstep.levers.mock_loader import RING
from slowstep.record.experiment.lever import Change, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now

_ITERATORS: Final = "tensorflow.python.data.ops.iterator_ops"
NO_PIPELINE: Final = "no pipeline of tf.data feeds the training in a call of Keras' fit, and other input can only be changed in the script"
DIVIDED: Final = "its batches are divided among devices, or are made on one ({})"
NO_LENGTH: Final = "nobody knows how long its epochs are before the first one has ended: with batches that never end none would"
# A pipeline of which nothing comes for so long, and for twice as long as its slowest batch took, is at rest; one that does not tell is
# given more. Assumed.
_QUIET_NS: Final = 100_000_000
_MOST_QUIET_NS: Final = 2_000_000_000
_UNTOLD_NS: Final = 500_000_000
# No longer than this are batches received only to be discarded.
_THROW_AWAY_NS: Final = 2_000_000_000
# Steps after which a pipeline that was at rest is at its own pace again: those that it makes at once have begun together. Assumed.
_STEPS_ALONE: Final = 3


class PipelineChange(Change):
    """Another resource gives the batches; the pipeline fills its buffers meanwhile and rests.

    `needs` batches of its own are to be kept before it is ready. `discarded` of those that gathered meanwhile were.
    Raises NotApplicable where no pipeline feeds the training whose batches can be replaced.
    """

    def __init__(self, training: Training, needs: int = RING) -> None:
        self._asked = training.recorder.shared(AskedIterators)
        self._handed, self._kept = training.recorder.shared(HandedIterators), training.recorder.shared(KeptBatches)
        # Not kept: the iterator of an epoch that is over has buffers.
        replaceable(self._asked.last)
        if training.recorder.levers and not self._asked.length_is_known:
            raise NotApplicable(NO_LENGTH)
        self._error: str | None = None
        self._given_instead = self._steps = self.discarded = 0
        self._is_on = self._is_left = False
        self._made, self._since_ns = -1, 0
        self.needs = needs
        self._kept.join(self)

    def ready(self) -> bool:
        """Whether it is known how the pipeline does. Raises NotApplicable where it fails."""
        if self._kept.refused is not None:
            raise NotApplicable(self._kept.refused)
        return self._kept.are_enough(self.needs)

    def resource(self, asking: Asking) -> Any:
        """What gives the batches of this call. Raises what TensorFlow does."""
        raise NotImplementedError

    def gives(self, asking: Asking) -> Any:
        """The same, counted."""
        found = self.resource(asking)
        self.effect += asking.batches
        self._given_instead += asking.batches
        return found

    def on(self) -> None:
        """Give them from the next call on."""
        self._kept.use(self)
        self._is_on, self._is_left = True, False
        self._begin()

    def off(self) -> None:
        """Have the pipeline give again, without what gathered meanwhile."""
        if self._kept.stop_giving(self):
            self._is_on, self._is_left = False, True
            self._begin()
            self._discard()

    def remove(self) -> None:
        """Leave nothing behind, and let the batches go."""
        self._kept.leave(self)

    def fail(self, error: Exception) -> None:
        """Remember what went wrong in giving."""
        self._error = f"{type(error).__name__}: {error}"

    def each_step(self) -> None:
        """Raises what went wrong in giving, so that the arm is given up."""
        if self._error is not None:
            raise RuntimeError(self._error)

    def settled(self) -> bool:
        """On: whether the pipeline rests. Afterwards: whether it is at its own pace again."""
        self._steps += 1
        if self._is_left:
            return self._steps >= _STEPS_ALONE
        return not self._is_on or self._is_at_rest()

    def _begin(self) -> None:
        self._steps, self._made, self._since_ns = 0, -1, now()

    def _is_at_rest(self) -> bool:
        iterator = self._asked.last
        state = None if iterator is None else state_of(self._handed.own(iterator))
        if state is None:
            return now() - self._since_ns > _UNTOLD_NS
        if state.made != self._made:
            self._made, self._since_ns = state.made, now()
        return now() - self._since_ns > min(max(_QUIET_NS, 2 * self._kept.slowest_ns), _MOST_QUIET_NS)

    def _discard(self) -> None:
        """What lies ready beyond what usually does; no more than were given in its place, so that no epoch ends before its time."""
        iterator, most = self._asked.last, self._given_instead
        self._given_instead = 0
        if iterator is not None:
            own, usual = self._handed.own(iterator), self._kept.usual_ready
            self.discarded += discard(iterator, own, leaving=usual, most=most)


def discard(iterator: Any, resource: Any, *, leaving: float | None, most: int | None = None) -> int:
    """Receive what lies ready until no more than so many do, `most` at most and for 2 s; nothing where that is unknown. How many it was."""
    state = None if leaving is None else state_of(resource)
    if state is None or leaving is None:
        return 0
    gathered = round(state.ready - leaving) if most is None else min(round(state.ready - leaving), most)
    thrown, until_ns = 0, now() + _THROW_AWAY_NS
    while thrown < gathered and now() < until_ns:
        try:
            next_of(iterator, resource)
        except sys.modules["tensorflow"].errors.OpError:
            # Its end, or its own error: it has nothing more that is ready.
            break
        thrown += 1
    return thrown


def replaceable(iterator: Any) -> Any:
    """The same. Raises NotApplicable where there is none, or nothing else can give its batches."""
    if iterator is None:
        raise NotApplicable(NO_PIPELINE)
    kind = sys.modules[_ITERATORS].OwnedIterator
    if type(iterator) is not kind or not resource_of(iterator).device.endswith("CPU:0"):
        raise NotApplicable(DIVIDED.format(type(iterator).__name__))
    return iterator
