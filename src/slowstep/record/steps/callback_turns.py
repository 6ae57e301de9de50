"""Callbacks that a framework calls one after the other, each with the time of its turn.

What walks through them is run as it is, on a stand-in for their list that notes when the next one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slowstep.record.recorder import now


class CallbackTurns:
    """A list of callbacks of which everything but the walk through them is the list's own; `ended` is told of each, and when it began."""

    def __init__(self, handler: Any, ended: Callable[[Any, int], None]) -> None:
        object.__setattr__(self, "_slowstep", (handler, ended))

    @property
    def callbacks(self) -> Iterator[Any]:
        """The callbacks; what runs between two of them is the first one's."""
        handler, ended = self._slowstep
        for callback in handler.callbacks:
            begun_ns = now()
            try:
                yield callback
            finally:
                ended(callback, begun_ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slowstep[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._slowstep[0], name, value)
