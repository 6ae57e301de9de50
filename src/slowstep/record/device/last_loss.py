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
    how to find out whether losses are finite, without waiting for a device (`are_finite`). Who sees a step only as a whole says `answer`.
    """

    def __init__(self) -> None:
        self.starters: list[Callable[[], None]] = []
        self.are_finite: Callable[[list[Any]], IsFinite | None] = _nobody_says
        self.is_wanted = False
        self._kept: deque[Any] = deque(maxlen=_PASSES)
        self._answer: IsFinite | None = None

    def want(self) -> None:
        """Keep the loss of the step that begins now."""
        self._answer = None
        self._kept.clear()
        self.is_wanted = bool(self.starters)
        for start in self.starters:
            start()

    def keep(self, losses: list[Any]) -> None:
        """A backward pass begins at these losses."""
        self._kept.extend(losses)

    def answer(self, is_finite: IsFinite) -> None:
        """The step was seen as a whole, and this tells of its loss."""
        self._answer = is_finite

    def take(self) -> IsFinite | None:
        """The step is over: how to find out whether its loss is finite. None where none was kept, or its device cannot be asked."""
        self.is_wanted = False
        answer, self._answer = self._answer, None
        kept = [*self._kept]
        self._kept.clear()
        return self.are_finite(kept) if answer is None else answer
