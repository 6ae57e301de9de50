"""Tells the few samples that take many times as long to make as the others, by their index.

A data set is asked for one index of a batch after the other: a list that looks at the clock where the next index is taken times each
sample, and neither the data set nor the fetcher is touched.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.recorder import now
from slowstep.record.writing.format import SLOW_SAMPLE

if TYPE_CHECKING:
    from slowstep.record.writing.fastpath import WriteRecord
    from slowstep.record.writing.threads import ThreadState

# Two looks at the clock take 0.15 us: so much making is set against each timed sample, and it stays under a third of a percent. What has
# been made pays, the slow samples with it: were it the batches just made, then rare slow ones among short ones would mostly be missed.
SHORTEST_NS: Final = 50_000
# What a slow data set has left over does not pay for a quick one after it for long.
MOST_UNSPENT_NS: Final = 1_000_000_000
# Sizes of pictures and lengths of texts vary by two to four times in ordinary data sets; this is beyond.
SLOW_TIMES: Final = 8
# What one sample in twenty does is no rare event: its records end there.
MOST_AT_FIRST, MOST_SHARE = 20, 20
# Where not all batches can be paid for, chance chooses among these many: whatever recurs is met as often as it comes.
CHOSEN_OF: Final = 16
_UNKNOWN: Final = -1
# Of its own: the training's random numbers are not touched.
_chance = random.Random(0).random


class TimedIndices(list[Any]):
    """The indices of one batch; whoever walks them makes the sample of each before taking the next."""

    __slots__ = ("last_ns", "limit_ns", "slow")

    def __init__(self, indices: list[Any], limit_ns: int) -> None:
        super().__init__(indices)
        self.limit_ns, self.last_ns = limit_ns, 0
        self.slow: list[tuple[Any, int, int]] = []

    def __iter__(self) -> Iterator[Any]:
        limit_ns = self.limit_ns
        for index in super().__iter__():
            t0 = now()
            yield index
            t1 = now()
            self.last_ns = t1 - t0
            if t1 - t0 > limit_ns:
                self.slow.append((index, t0, t1))


def timed_indices(me: ThreadState, fetcher: Any, index: Any) -> Any:
    """`index`, timed where enough has been made to be set against it, and samples are asked for one by one."""
    if type(index) is not list or not index or not _one_by_one(fetcher):
        return index
    price_ns = SHORTEST_NS * len(index)
    if me.unspent_ns < max(price_ns, CHOSEN_OF * price_ns * _chance()):
        return index
    me.unspent_ns -= price_ns
    if not me.sample_ns:
        me.sample_ns = me.fetch_ns // len(index)
    return TimedIndices(index, SLOW_TIMES * me.sample_ns)


def _one_by_one(fetcher: Any) -> bool:
    """Whether the fetcher walks the indices itself; torch's own subset of a data set does it in the fetcher's place."""
    kind = type(getattr(fetcher, "dataset", None))
    walks = not hasattr(kind, "__getitems__") or kind.__module__ == "torch.utils.data.dataset"
    return walks and bool(getattr(fetcher, "auto_collation", False))


def count_made(me: ThreadState, wall_ns: int) -> None:
    """Count what a batch took to make: it pays for the timing of samples in later ones."""
    me.unspent_ns = min(me.unspent_ns + wall_ns, MOST_UNSPENT_NS)


def record_slow(me: ThreadState, event: WriteRecord, indices: TimedIndices, batch: int) -> None:
    """Record the slow samples of a batch, and follow what a sample usually takes."""
    for index, t0, t1 in indices.slow:
        me.slow_samples += 1
        if me.slow_samples <= MOST_AT_FIRST + me.samples // MOST_SHARE:
            known = index if type(index) is int and 0 <= index < 2**62 else _UNKNOWN
            event(SLOW_SAMPLE, t0, t1, known, me.sample_ns, batch)
    me.samples += len(indices)
    # A step up or down at each batch ends at the median, whatever the slow ones take.
    change_ns = me.sample_ns >> 3
    me.sample_ns = max(me.sample_ns + (change_ns if indices.last_ns > me.sample_ns else -change_ns), 1)
