"""Whose turn it is where one call in k is made, and the others are left out."""

from __future__ import annotations

import random


class CallTurns:
    """Goes on from block to block, and only in steps that are counted, so that the counted steps of an arm are one training with `every`.

    Of n calls in them n / k are made, rounded to the nearest whole number, however many a block has. With `every` of 1 none is made.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        # Half of k before the first turn: what is rounded is too much as often as too little.
        self._turn = self._at_start = every // 2

    def begin_block(self) -> None:
        """The lever has been switched on; what comes before `begin_counting` takes no turns."""
        self._at_start = self._turn

    def begin_counting(self) -> None:
        """From here on steps are counted."""
        self._turn = self._at_start

    def is_left_out(self) -> bool:
        """Whether the next call is left out."""
        self._turn += 1
        return self._every == 1 or self._turn % self._every != 0


class DrawnTurns(CallTurns):
    """Begins anywhere in each block: for a loader's worker, which does not know in which step its batch will be used.

    Each call is made with a chance of 1 / k then, wherever it counts, and what one block has too many is chance like any other noise.
    """

    def __init__(self, every: int) -> None:
        super().__init__(every)
        # Its own: the script's random numbers stay as they are.
        self._drawn = random.Random()

    def begin_block(self) -> None:
        """Draw where to begin."""
        self._turn = self._at_start = self._drawn.randrange(self._every)
