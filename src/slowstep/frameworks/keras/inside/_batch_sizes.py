"""How many samples the batches hold that Keras' `fit` reads, by what its compiled calls count of themselves."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks.tensorflow.inside.fetches import CountedFetches
from slowstep.levers.batch_size import UNTOLD
from slowstep.record.experiment.lever import NotApplicable

VARY: Final = "its batches are of many sizes"


class CountedSizes:
    """Looked at after each step; an epoch's last batch may be a smaller one."""

    def __init__(self, fetches: CountedFetches) -> None:
        self._fetches = fetches
        self._before: tuple[int, int] | None = None
        self._sizes: list[int] = []

    def look(self) -> None:
        """A step has ended, of one batch. Raises NotApplicable where nothing counts, and what TensorFlow does."""
        batches, _, samples = self._fetches.read()
        if not batches or samples is None:
            raise NotApplicable(UNTOLD)
        before, self._before = self._before, (batches, samples)
        if before is not None and batches == before[0] + 1:
            self._sizes.append(samples - before[1])

    @property
    def usual(self) -> int:
        """The largest, which most have. Raises NotApplicable where they vary, or none was counted."""
        found = max(self._sizes, default=0)
        if found < 1:
            raise NotApplicable(UNTOLD)
        if 2 * self._sizes.count(found) <= len(self._sizes):
            raise NotApplicable(VARY)
        return found
