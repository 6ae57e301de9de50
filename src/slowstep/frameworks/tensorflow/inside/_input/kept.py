"""The next real batches of a pipeline, kept for levers as the training gets them: none is lost to it, and none comes twice."""

from __future__ import annotations

import statistics
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from slowstep.frameworks.tensorflow.inside._handed import HandedIterators
from slowstep.frameworks.tensorflow.inside._input.asked import AskedIterators, Asking
from slowstep.frameworks.tensorflow.inside._input.readiness import state_of
from slowstep.frameworks.tensorflow.inside._input.resources import FlatBatch, bytes_of, leading_of, next_of, over
from slowstep.levers._input.room import MIB, memory_free_bytes
from slowstep.levers.mock_loader import RING
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Of the memory that is free the batches take no more than this share.
MOST_MEMORY: Final = 0.25
# Readings of what lies ready.
_READINGS: Final = 16


class Gives(Protocol):
    """What gives a training other batches while it is on."""

    def gives(self, asking: Asking) -> Any:
        """The resource that this call is to read. Raises what TensorFlow does."""

    def fail(self, error: Exception) -> None:
        """Remember what it raised."""


class KeptBatches:
    """Takes each batch in the place of the call that is about to fetch it, keeps it, and has the call get that one.

    `refused` says why none are kept. `usual_ready` is how many lie ready where one is asked for, `slowest_ns` how long the slowest took.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._asked, self._handed = recorder.shared(AskedIterators), recorder.shared(HandedIterators)
        self._joined = 0
        self.forget()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Keep none, as in a forked child."""
        self.batches: list[FlatBatch] = []
        self.refused: str | None = None
        self.slowest_ns = 0
        self._ready: deque[float] = deque(maxlen=_READINGS)
        self._giver: Gives | None = None

    def join(self) -> None:
        """Somebody needs them."""
        self._joined += 1
        if self._joined == 1:
            self._asked.join(self)

    def leave(self) -> None:
        """No longer; after the last one they are let go."""
        self._joined -= 1
        if self._joined == 0:
            self._asked.leave(self)
            self._handed.restore_all()
            self.forget()

    def use(self, giver: Gives) -> None:
        """From the next call on this one gives. Raises RuntimeError where another one does."""
        if self._giver not in (None, giver):
            raise RuntimeError("another lever gives the training its batches")
        self._giver = giver

    def give_up(self, giver: Gives) -> bool:
        """The pipeline gives again. Whether this one gave."""
        if self._giver is not giver:
            return False
        self._giver = None
        self._handed.restore_all()
        return True

    def are_enough(self) -> bool:
        """Whether there are as many as are given in turn."""
        return len(self.batches) >= RING

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
        if self.refused is None and not self.are_enough():
            self._keep(asking)

    def _give(self, giver: Gives, asking: Asking) -> None:
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
        taken = self._taken(iterator, resource, asking)
        if taken:
            self._handed.give(iterator, over(iterator, resource, taken, repeats=False))
        # One that is short is not like the others.
        self.batches += taken[:-1] if asking.is_last and self._is_short(taken) else taken

    def _taken(self, iterator: Any, resource: Any, asking: Asking) -> list[FlatBatch]:
        taken: list[FlatBatch] = []
        errors = sys.modules["tensorflow"].errors
        try:
            for _ in range(asking.batches):
                began_ns = now()
                taken.append(next_of(iterator, resource))
                self.slowest_ns = max(self.slowest_ns, now() - began_ns)
                self.refused = self.refused or self._too_large(taken[-1])
        except errors.OutOfRangeError:
            # The call finds that out by itself.
            return taken
        except errors.OpError as error:
            self.refused = f"its pipeline raised {type(error).__name__}"
        return taken

    def _is_short(self, taken: list[FlatBatch]) -> bool:
        others = [*self.batches, *taken[:-1]]
        return bool(taken and others) and leading_of(taken[-1]) != leading_of(others[0])

    def _too_large(self, batch: FlatBatch) -> str | None:
        wanted, free = bytes_of(batch) * RING, memory_free_bytes()
        if self.batches or free is None or wanted <= MOST_MEMORY * free:
            return None
        return f"{RING} batches take {wanted / MIB:.0f} MiB, and of {free / MIB:.0f} MiB of free memory a quarter is used at most"
