"""The loss of a single step, kept where somebody asks for it: whether it is a finite number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

# Of a step that accumulates gradients the last passes are enough: what has spoilt the weights shows in all that follow.
_PASSES: Final = 8

# Whether all of them are finite; None as long as a device has not said.
IsFinite = Callable[[], bool | None]


def _nobody_says(losses: list[Any]) -> IsFinite | None:
    return None


class LastLoss:
    """Asked for between two steps, kept in the backward passes of the next one, looked at behind it.

    Whoever sees backward passes adds to `starters` what is to be called when a loss is wanted: it has to look at them then. It says also
    how to find out whether losses are finite, without waiting for a device (`are_finite`).
    """

    def __init__(self) -> None:
        self.starters: list[Callable[[], None]] = []
        self.are_finite: Callable[[list[Any]], IsFinite | None] = _nobody_says
        self.is_wanted = False
        self._kept: deque[Any] = deque(maxlen=_PASSES)

    def want(self) -> None:
        """Keep the loss of the step that begins now."""
        self._kept.clear()
        self.is_wanted = bool(self.starters)
        for start in self.starters:
            start()

    def keep(self, losses: list[Any]) -> None:
        """A backward pass begins at these losses."""
        self._kept.extend(losses)

    def take(self) -> IsFinite | None:
        """The step is over: how to find out whether its loss is finite. None where none was kept, or its device cannot be asked."""
        self.is_wanted = False
        kept = [*self._kept]
        self._kept.clear()
        return self.are_finite(kept)
