"""Data that is in the page cache already, as it would be with enough memory or very fast storage.

What it changes:
    A second loader, like the training's own, is started beside it. It asks its data set for the same few batches of samples again and
    again, so that, after the first time, their files are in the page cache. While the lever is on the training gets that one's batches.
What it answers:
    What reading from storage costs: decoding, transforms and collating are done as ever. The bytes that came from storage per batch are
    counted as it is and with the lever (`own_storage_bytes`, `storage_bytes`).
When it has no meaning:
    Where nothing is read from storage as it is (the files are cached already), where the data set is a stream (the same samples cannot be
    asked for again), where the system does not count reads, and where the loader cannot be built a second time (see workers). A data
    set that keeps samples in its own memory is served from there, and the gain is that of both.
How it is undone:
    As workers. The files stay in the page cache.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from slowstep.levers._input.cache import OtherCache
from slowstep.levers._input.indices import RepeatedSampler
from slowstep.levers._input.rebuilt import loader_of
from slowstep.record.experiment.lever import ORDER, Change, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

# Batches of samples in turn; never fewer than twice those that are made ahead.
BATCHES: Final = 16
# Less per batch than one block of a usual file system is no reading of files: 120 to 410 bytes were measured where none was read, which
# is what workers and training say to each other.
LEAST_BYTES: Final = 4096
# And less from storage than this share of what is read is no reading from storage.
LEAST_SHARE: Final = 0.01


class Warm(OtherCache):
    """The second loader: it has proved itself when it has read everything once."""

    def __init__(self, training: Training, rounds: int, **changed: Any) -> None:
        self._cold = rounds
        super().__init__(training, **changed)

    def check_own(self, called: float, storage: float) -> None:
        """Raises NotApplicable where nothing is read from storage."""
        if storage < LEAST_BYTES or storage < LEAST_SHARE * called:
            raise NotApplicable("nothing is read from storage: what the loader reads is in the page cache already")

    def has_proved(self) -> bool:
        """Whether all batches were made once."""
        if self._cold > 0 and (stream := self.stream) is not None:
            # Without workers it is this thread that makes them: one at each boundary.
            for _ in range(1 if stream.ready is None else min(stream.ready, self._cold)):
                stream.take()
                self._cold -= 1
        return self._cold <= 0


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader that repeats batches of samples. Raises NotApplicable with the reason."""
    loader = loader_of(training)
    if loader._dataset_kind != 0:
        raise NotApplicable("its data set is a stream, which cannot be asked for the same samples again")
    sampler = "sampler" if loader.batch_sampler is None else "batch_sampler"
    count = max(BATCHES, 2 * loader.num_workers * (loader.prefetch_factor or 0))
    own = getattr(loader, sampler)
    repeated = RepeatedSampler(list(itertools.islice(iter(own), count)), own)
    return Warm(training, len(repeated), **{sampler: repeated})


LEVER = Lever(name="warm-cache", changes=frozenset({ORDER}), long_steps="its own", prepare=prepare)
