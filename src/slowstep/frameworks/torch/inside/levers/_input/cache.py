"""A second loader that reads from another state of the page cache, and proves by the kernel's counters that it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.rebuilt import Rebuilt
from slowstep.levers._input.disk_reads import DiskReads, readers, reads_of
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.training import Training

# Batches over which it is seen what the loader reads as it is.
LOOKED_AT: Final = 16
NOT_COUNTED: Final = "the system does not say what its workers read from storage"


class OtherCache(Rebuilt):
    """Bytes per batch, those that read calls returned and those that came from storage, are counted as it is and with the change."""

    def __init__(self, training: Training, **changed: Any) -> None:
        self._first: tuple[tuple[str, ...], int, DiskReads] | None = None
        self._own: tuple[float, float] | None = None
        self._is_proved = False
        self._before: DiskReads | None = None
        self._read = DiskReads(called_bytes=0, storage_bytes=0)
        # Batches made in all when it was looked last, and those made while what was read is known.
        self._made_before = self._made_known = 0
        super().__init__(training, **changed)

    def ready(self) -> bool:
        """Whether it is known what the loader reads as it is, and the second loader has proved itself. Raises NotApplicable."""
        # The second loader starts when the own one has been looked at: what it does to the cache is none of that.
        if self.stream is None and not self._has_looked():
            return False
        if super().ready() and not self._is_proved:
            self._is_proved = self.has_proved()
            # Now its workers are at work again.
            return False
        return self._is_proved and super().ready()

    def check_own(self, called: float, storage: float) -> None:
        """Judge the bytes per batch of the loader as it is. Raises NotApplicable."""

    def has_proved(self) -> bool:
        """Whether the second loader has shown that it does what it is for. Raises NotApplicable where it does not."""
        return True

    def _has_looked(self) -> bool:
        own = self.feed.training.iterator
        if own is None:
            return False
        paths = readers(own)
        reads = reads_of(paths)
        if reads is None:
            raise NotApplicable(NOT_COUNTED)
        if self._first is None or self._first[0] != paths:
            self._first = (paths, self.feed.seen.received, reads)
        batches = self.feed.seen.received - self._first[1]
        if batches < LOOKED_AT:
            return False
        read = reads.since(self._first[2])
        self._own = read.called_bytes / batches, read.storage_bytes / batches
        self.check_own(*self._own)
        return True

    def reads(self) -> DiskReads | None:
        """What the second loader's readers have read so far."""
        return None if self.stream is None else reads_of(readers(self.stream.iterator))

    def on(self) -> None:
        """Give its batches, and count what it reads."""
        super().on()
        self._look()

    def off(self) -> None:
        """Have the loader's own come again."""
        self._count()
        super().off()

    def renew(self, left: int | None) -> None:
        """Count before the workers end."""
        self._count()
        super().renew(left)
        self._look()

    def _look(self) -> None:
        self._before, self._made_before = self.reads(), self._made()

    def _made(self) -> int:
        """Batches of the present iterator, those included that lie ready; without workers each is made as it is given."""
        made = None if self.stream is None else self.stream.made
        return self.effect if made is None else made

    def _count(self) -> None:
        after = self.reads()
        if after is not None and self._before is not None:
            read = after.since(self._before)
            self._read = DiskReads(
                called_bytes=self._read.called_bytes + read.called_bytes, storage_bytes=self._read.storage_bytes + read.storage_bytes
            )
            # Workers that ended with their epoch, and were not persistent, tell no more what they read: nor do the batches of it count.
            self._made_known += self._made() - self._made_before
        self._before = None

    def facts(self) -> Mapping[str, Any]:
        """Bytes per batch from storage and by read calls, as it is and with the change; None where nothing is known of any batch."""
        called, storage = self._own or (None, None)
        read, made = self._read, self._made_known
        mine = {"read_bytes": read.called_bytes / made if made else None, "storage_bytes": read.storage_bytes / made if made else None}
        return {**super().facts(), **mine, "own_read_bytes": called, "own_storage_bytes": storage}
