"""How many samples and bytes batches hold, told without their being walked through each time."""

from __future__ import annotations

from typing import Any, Final

from slowstep.record.experiment.loader_reading import UNKNOWN
from slowstep.record.recorder import now
from slowstep.record.timing.batches import bytes_in, samples_in

# Of the time that a loader is read, looking into its batches takes no more than this: its workers go on meanwhile. A batch of nested lists
# takes milliseconds, more than many a loader needs for making it.
_MOST_SHARE: Final = 0.02


class SampleSizes:
    """Looks into the first batch, and into others as far as that takes next to no time; those between are as the last one was."""

    def __init__(self) -> None:
        self._began_ns, self._spent_ns = now(), 0
        self._samples = self._seen = self._bytes = UNKNOWN
        self._has_looked = False

    def of(self, batch: Any, samples: int | None) -> tuple[int, int, int]:
        """Samples, the recorder's count of them, and bytes; UNKNOWN where they are not known. `samples` None: they are the recorder's."""
        began_ns = now()
        if self._has_looked and self._spent_ns > _MOST_SHARE * (began_ns - self._began_ns):
            return self._like_the_last(samples)
        self._seen, self._bytes = samples_in(batch), bytes_in(batch)
        self._samples = self._seen if samples is None else samples
        self._has_looked = True
        self._spent_ns += now() - began_ns
        return self._samples, self._seen, self._bytes

    def _like_the_last(self, samples: int | None) -> tuple[int, int, int]:
        if samples is None or self._samples <= 0:
            return self._samples if samples is None else samples, self._seen, self._bytes
        seen, size = (known if known == UNKNOWN else known * samples // self._samples for known in (self._seen, self._bytes))
        return samples, seen, size
