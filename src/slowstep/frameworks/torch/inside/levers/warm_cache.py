"""A second DataLoader that reads from the page cache."""

from __future__ import annotations

import itertools
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.cache import OtherCache
from slowstep.frameworks.torch.inside.levers._input.indices import RepeatedSampler
from slowstep.frameworks.torch.inside.levers._input.rebuilt import loader_of
from slowstep.levers.warm_cache import LEAST_BYTES, LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

# Batches of samples in turn; never fewer than twice those that are made ahead.
BATCHES: Final = 16
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


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, acts_on_loader=True)
