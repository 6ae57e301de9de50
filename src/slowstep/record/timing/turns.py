"""Which update ends a step, where there are several for each batch: of two networks in turns, as a GAN's are."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from slowstep.record.writing.threads import ThreadState

# So many batches in a row must have had as many updates; after so many that had not, it is given up.
_ALIKE: Final = 3
_MOST_BATCHES: Final = 50
# Nor is it asked for longer where no batch comes: one may serve for all steps.
_MOST_LOOKS: Final = 500


class UpdateTurn(Enum):
    """Where an update stands among those of the optimizers of a step."""

    INSIDE = "another one follows"
    LAST = "it ends the step"
    APART = "they are not called in turns"


def turn_of(count: int, counts: Iterable[int]) -> UpdateTurn:
    """The place of an optimizer's update, its `count`th, by how often all were called: once each in a step, in the order of the first."""
    ahead = {count - each for each in counts}
    return UpdateTurn.LAST if ahead == {0} else UpdateTurn.INSIDE if ahead == {0, 1} else UpdateTurn.APART


class UpdateTurns:
    """Learns it at the receipts of batches. Where their number changes, nothing is learnt: a body would not end with its own batch's."""

    def __init__(self) -> None:
        self.of_a_batch = 0
        self._updates = self._before = self._alike = self._batches = self._looks = 0

    @property
    def is_asking(self) -> bool:
        """Whether the next update is to be looked at, to learn more."""
        return not self.of_a_batch and self._batches < _MOST_BATCHES and self._looks < _MOST_LOOKS

    def updated(self, me: ThreadState) -> bool:
        """An update has ended; whether it is known how many there are for each batch."""
        self._updates += 1
        if self.is_asking:
            self._looks += 1
            me.when_received, me.quick = self._received, None
        elif not self.of_a_batch:
            me.when_received = None
        return bool(self.of_a_batch)

    def _received(self, me: ThreadState) -> None:
        # Of two loaders that are read together, one is received without an update since the other.
        if not self._updates:
            return
        self._batches += 1
        self._alike = self._alike + 1 if self._updates == self._before else 0
        self._before, self._updates = self._updates, 0
        if self._alike >= _ALIKE:
            self.of_a_batch = self._before
        if not self.is_asking:
            me.when_received = None
