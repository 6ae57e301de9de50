"""Batches that a framework only counts: how many samples came, and how many were in the usual batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from slowstep.analyses.steps.batches import Batches
from slowstep.analyses.steps.trainer import LEADING, Trainer
from slowstep.timeline.intervals import Ints

# Of so many of the batches the size must be sure for it to be the usual one: as of `Batches.usual`, that which most have.
MOST = 0.5


def with_counted(batches: Batches, trainer: Trainer, aggregates: pl.DataFrame) -> Batches:
    """The same with the samples that were counted, where most batches were only counted; unknown still where those of any were not.

    A few that are seen one by one beside these are no batches of the training, as where a script predicts between its epochs.

    Each step is said to hold as many as all do on average, not what was counted while it ran: by that the longer ones would hold more.
    """
    mine = pl.col("process") == trainer.process, pl.col("thread") == trainer.thread, pl.col("kind") == "wait"
    rows = aggregates.filter(*mine, pl.col("end_ns") > pl.col("start_ns"), pl.col("count") > 0).sort("start_ns")
    if rows["count"].sum() <= len(trainer.waits) or rows["samples"].has_nulls():
        return batches
    count, samples = rows["count"].to_numpy(), rows["samples"].to_numpy()
    return replace(
        batches,
        samples=np.full(len(batches.samples), samples.sum() / count.sum()),
        sizes=None,
        counted_size=_usual(count, samples),
        per_step=None,
        requests_per_step=None,
        changes=(),
        size_from=LEADING,
        is_size_assumed=True,
    )


def _usual(count: Ints, samples: Ints) -> int | None:
    """The mean of most windows where it is the same whole number: one with a smaller batch in it has a smaller mean, hardly a whole one."""
    whole = samples % count == 0
    sizes = np.unique(samples[whole] // count[whole])
    weights = [int(count[whole & (samples == size * count)].sum()) for size in sizes.tolist()]
    if not weights or max(weights) <= MOST * count.sum():
        return None
    return int(sizes[int(np.argmax(weights))])
