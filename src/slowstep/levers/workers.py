"""Another number of loader workers, from none on.

What it changes:
    A second loader, like the training's own but for the number of its workers, is started with it; while the lever is on the training
    gets that one's batches. Each loader's workers rest while the other is asked. In place of a loader without workers they are persistent,
    but where the script changes attributes of the data set between epochs.
    Of several loaders that are read in each step, as by zip(), or in turns, it is the one that is waited for most, and the report names it.
    An epoch ends with a smaller batch where it does so without the lever; batches of a batch sampler of the script's own come as they come.
What it answers:
    Whether more (or fewer) workers make the training faster on this machine, and how much.
When it has no meaning:
    Where the loader has that many workers already, makes iterators of its own, reads its sampler as one iterator, or its workers cannot be
    started a second time (a data set that cannot be pickled) or find no room for their batches in memory. Where it reads a stream that
    gives each worker all of its samples (an IterableDataset that does not divide itself by torch.utils.data.get_worker_info()), and
    either number is above one: the training would be given other samples. The processes of both loaders take memory at the same time.
    Where the loader cannot be built a second time, for a reason that another run does not have, `slowstep prove` compares whole runs, in
    which the script builds it with the lever. Data comes in another order: nothing is said about the loss.
How it is undone:
    The own loader's batches are given out again, after those that gathered were discarded; in the end the second loader's workers end.
"""

from __future__ import annotations

from typing import Final

from slowstep.levers._count import count_of
from slowstep.record.experiment.lever import DEMAND, ORDER, Lever, LeverSpec

# More workers that add less are not worth their memory: under 5 % is what experiments here can just distinguish from nothing in a minute
# (recording.md B: 240 steps an arm for +-5 %).
LEAST_ADDED: Final = 0.05


def read_workers(spec: LeverSpec) -> int:
    """The N. Raises ValueError where it is no whole number."""
    return count_of(spec, least=0)


LEVER = Lever(name="workers", takes="N", changes=frozenset({ORDER, DEMAND}), read=read_workers)
