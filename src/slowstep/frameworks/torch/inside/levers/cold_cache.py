"""A second DataLoader that reads from storage."""

from __future__ import annotations

import os
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.cache import OtherCache
from slowstep.frameworks.torch.inside.levers._input.rebuilt import loader_of
from slowstep.levers._input.cold_files import ColdStart
from slowstep.levers._input.disk_reads import DiskReads
from slowstep.levers.cold_cache import LEVER
from slowstep.levers.warm_cache import LEAST_BYTES
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

# Of the bytes that are read, so many must come from storage for files to be cold.
COLD_SHARE: Final = 0.5
# Batches of the second loader by which it is seen whether files can be dropped.
TRIED: Final = 8
# Cached files that are mapped into memory are read without a call.
NOTHING_READ: Final = "next to nothing is read: its data lies in memory, in files mapped into it, or comes over the network"
STAY_CACHED: Final = "its files stay in the page cache: large, held open, mapped, or opened out of Python's sight"


class ColdLoader(OtherCache):
    """The second loader: it has proved itself when what it reads comes from storage."""

    def __init__(self, training: Training, **changed: Any) -> None:
        self._tries = 0
        self._since: DiskReads | None = None
        super().__init__(training, **changed)

    def check_own(self, called: float, storage: float) -> None:
        """Raises NotApplicable where most is read from storage as it is."""
        if storage > COLD_SHARE * called:
            raise NotApplicable("most of what the loader reads comes from storage as it is")

    def has_proved(self) -> bool:
        """Whether a few batches came from storage. Raises NotApplicable where they did not."""
        stream = self.stream
        if stream is None or self._tries > TRIED:
            return stream is not None
        if self._since is None:
            self._since = self.reads()
        while self._tries <= TRIED and stream.ready:
            stream.take()
            self._tries += 1
        reads = self.reads()
        if self._tries <= TRIED or reads is None or self._since is None:
            return False
        read = reads.since(self._since)
        if read.storage_bytes <= COLD_SHARE * max(read.called_bytes, 1):
            raise NotApplicable(NOTHING_READ if read.called_bytes < LEAST_BYTES * self._tries else STAY_CACHED)
        return True


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader whose workers drop files before they read them. Raises NotApplicable with the reason."""
    loader = loader_of(training)
    if not hasattr(os, "posix_fadvise"):
        raise NotApplicable("this system takes no advice about its page cache")
    if loader.num_workers == 0:
        raise NotApplicable("the loader has no workers, and the training's own process would keep the watch for opened files for ever")
    return ColdLoader(training, worker_init_fn=ColdStart(loader.worker_init_fn))


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, acts_on_loader=True)
