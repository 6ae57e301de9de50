"""The next real batches of a pipeline, kept for levers as the training gets them: none is lost to it, and none comes twice."""

from __future__ import annotations

import statistics
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from slowstep.frameworks.tensorflow.inside._handed import HandedIterators
from slowstep.frameworks.tensorflow.inside._input.asked import AskedIterators, Asking
from slowstep.frameworks.tensorflow.inside._input.readiness import state_of
from slowstep.frameworks.tensorflow.inside._input.resources import FlatBatch, bytes_of, leading_of, next_of, over
from slowstep.levers._input.room import MIB, memory_free_bytes
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Of the memory that is free the batches take no more than this share.
MOST_MEMORY: Final = 0.25
# Readings of what lies ready.
_READINGS: Final = 16


class BatchGiver(Protocol):
    """What gives a training other batches while it is on. `needs` are the batches to be kept before that."""

    needs: int

    def gives(self, asking: Asking) -> Any:
        """The resource that this call is to read. Raises what TensorFlow does."""

    def fail(self, error: Exception) -> None:
        """Remember what it raised."""


class KeptBatches:
    """Takes each batch in the place of the call that is about to fetch it, keeps it, and has the call get that one.

    `refused` says why none are kept. `usual_ready` is how many lie ready where one is asked for, `slowest_ns` how long the slowest took.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._asked, self._handed = recorder.shared(AskedIterators), recorder.shared(HandedIterators)
        self.forget()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Keep none for nobody, as in a forked child."""
        self._wanted_by: list[BatchGiver] = []
        self.batches: list[FlatBatch] = []
        self.refused: str | None = None
        self.slowest_ns = 0
        self._ready: deque[float] = deque(maxlen=_READINGS)
        self._giver: BatchGiver | None = None
        # One that may be the last of its epoch, and shorter than all others; and which iterator gave it: None where it was the last.
        self._unsure: tuple[Callable[[], Any], FlatBatch] | None = None

    def join(self, giver: BatchGiver) -> None:
        """This one needs them."""
        self._wanted_by.append(giver)
        if len(self._wanted_by) == 1:
            self._asked.join(self)

    def leave(self, giver: BatchGiver) -> None:
        """It no longer does; after the last one they are let go."""
        if giver not in self._wanted_by:
            return
        self._wanted_by.remove(giver)
        if not self._wanted_by:
            self._asked.leave(self)
            self._handed.restore_all()
            self.forget()

    def use(self, giver: BatchGiver) -> None:
        """From the next call on this one gives. Raises RuntimeError where another one does."""
        if self._giver not in (None, giver):
            raise RuntimeError("another lever gives the training its batches")
        self._giver = giver

    def stop_giving(self, giver: BatchGiver) -> bool:
        """The pipeline gives again. Whether this one gave."""
        if self._giver is not giver:
            return False
        self._giver = None
        self._handed.restore_all()
        return True

    def are_enough(self, needed: int) -> bool:
        """Whether there are so many."""
        return len(self.batches) >= needed

    @property
    def _needed(self) -> int:
        return max((each.needs for each in self._wanted_by), default=0)

    @property
    def usual_ready(self) -> float | None:
        """None where TensorFlow does not count it."""
        return statistics.median(self._ready) if self._ready else None

    def asks(self, asking: Asking) -> None:
        """A call is about to fetch: decide what it gets. Raises nothing of the pipeline's."""
        if self._giver is not None:
            self._give(self._giver, asking)
            return
        self._handed.restore(asking.iterator)
        if self.refused is None and not self.are_enough(self._needed):
            self._keep(asking)

    def _give(self, giver: BatchGiver, asking: Asking) -> None:
        try:
            self._handed.give(asking.iterator, giver.gives(asking))
        except Exception as error:  # a lever's own fault: its arm is given up and named, the rest goes on
            self._handed.restore(asking.iterator)
            giver.fail(error)

    def _keep(self, asking: Asking) -> None:
        """Give it what it would have got."""
        iterator, resource = asking.iterator, self._handed.own(asking.iterator)
        state = state_of(resource)
        if state is not None:
            self._ready.append(state.ready)
        taken, error = self._taken(iterator, resource, asking)
        if isinstance(error, sys.modules["tensorflow"].errors.OutOfRangeError):
            # The call finds that out by itself.
            error = None
            self._ends()
        elif error is not None:
            self.refused = f"its pipeline raised {type(error).__name__}"
        if taken or error is not None:
            self._handed.give(iterator, over(iterator, resource, taken, repeats=False, error=error))
        if asking.is_last:
            self._ends()

    def _taken(self, iterator: Any, resource: Any, asking: Asking) -> tuple[list[FlatBatch], Exception | None]:
        """What the call is to get, and what was raised in the place of the rest."""
        taken: list[FlatBatch] = []
        try:
            for _ in range(asking.batches):
                began_ns = now()
                taken.append(next_of(iterator, resource))
                self.slowest_ns = max(self.slowest_ns, now() - began_ns)
                self.refused = self.refused or self._too_large(taken[-1])
                self._add(iterator, taken[-1])
        except sys.modules["tensorflow"].errors.OpError as error:
            return taken, error
        return taken, None

    def _add(self, iterator: Any, batch: FlatBatch) -> None:
        """Keep it, and the one before it, which was not the last of its epoch, or is as long as the first of the next."""
        unsure, self._unsure = self._unsure, None
        if unsure is not None and (unsure[0]() is iterator or leading_of(unsure[1]) == leading_of(batch)):
            self.batches.append(unsure[1])
        if self.batches and leading_of(batch) == leading_of(self.batches[0]):
            self.batches.append(batch)
        else:
            self._unsure = weakref.ref(iterator), batch

    def _ends(self) -> None:
        """The epoch does."""
        self._unsure = self._unsure and (lambda: None, self._unsure[1])

    def _too_large(self, batch: FlatBatch) -> str | None:
        wanted, free = bytes_of(batch) * self._needed, memory_free_bytes()
        if self.batches or self._unsure or free is None or wanted <= MOST_MEMORY * free:
            return None
        return f"{self._needed} batches take {wanted / MIB:.0f} MiB, and of {free / MIB:.0f} MiB of free memory a quarter is used at most"
