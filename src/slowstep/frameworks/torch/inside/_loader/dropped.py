"""How long it takes to free a loader's iterator: the indices of a pass over a large data set are millions of Python objects."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.recorder import now
from slowstep.record.writing.format import SHUTDOWN

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

KEPT_AS: Final = "_slowstep_dropped"
# As of collections of garbage: writing of shorter ones would take more than a fiftieth of them.
SHORTEST_NS: Final = 100_000


class Dropped:
    """Kept as the last attribute of an iterator, which is freed after all that the iterator holds: then it writes how long that took.

    Weak references are told before. Where the collector frees the iterator, in a circle with others, they are not, and nothing is written.
    """

    __slots__ = ("_began_ns", "_recorder", "_reference", "number")

    def __init__(self, recorder: Recorder, iterator: Any) -> None:
        self._recorder, self._began_ns, self.number = recorder, 0, 0
        self._reference: weakref.ref[Any] | None = weakref.ref(iterator, self._begin)

    def forget(self) -> None:
        """Write nothing: the recording is over."""
        self._reference = None

    def _begin(self, _: Any) -> None:
        self._began_ns = now()

    def __del__(self) -> None:
        if not self._began_ns:
            return
        ended_ns = now()
        try:
            if ended_ns - self._began_ns >= SHORTEST_NS and self._recorder.live[0]:
                self._recorder.event(SHUTDOWN, self._began_ns, ended_ns, self.number)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)


def time_drop(recorder: Recorder, iterator: Any, number: int) -> None:
    """Have an iterator's end recorded under this number, which each of its starts gives anew."""
    state = iterator.__dict__
    dropped = state.get(KEPT_AS)
    if dropped is None:
        dropped = state[KEPT_AS] = Dropped(recorder, iterator)
    dropped.number = number


def leave(iterator: Any) -> None:
    """Take what is kept on an iterator off it."""
    dropped = iterator.__dict__.pop(KEPT_AS, None)
    if dropped is not None:
        dropped.forget()
