"""Callbacks that a framework calls one after the other, each with the time of its turn.

What walks through them is run as it is, on a stand-in for their list that notes when the next one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class CallbackTurns:
    """A list of callbacks of which everything but the walk through them is the list's own; `ended` is told of each, and when it began.

    What `ended` raises, as where it looks at a callback of the user's that will not be looked at, is counted and not passed on.
    """

    def __init__(self, recorder: Recorder, handler: Any, ended: Callable[[Any, int], None]) -> None:
        object.__setattr__(self, "_slowstep", (recorder, handler, ended))

    @property
    def callbacks(self) -> Iterator[Any]:
        """The callbacks; what runs between two of them is the first one's."""
        recorder, handler, ended = self._slowstep
        for callback in handler.callbacks:
            begun_ns = now()
            try:
                yield callback
            finally:
                try:
                    ended(callback, begun_ns)
                except Exception as error:  # the border: counted, and never raised into the training
                    recorder.fault(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slowstep[1], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._slowstep[1], name, value)
