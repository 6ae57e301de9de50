"""How many samples each batch of the training holds: as many as its loader was asked for, where that is known and is a number of samples.

A batch's leading dimension is only an assumption: of graphs that are put together it is a number of nodes, of sequences that may run along
the first dimension a length, of crops a multiple. The indices that the loader's fetcher is given, or the items that a stream gives for a
batch, are samples by definition. Three cases are left to the leading dimension. One index may stand for a whole batch, where the data set
makes those. What the loop asks for may be made of several batches of a loader. And a collate function that leaves out broken samples makes
batches of fewer than were asked for, mostly of not many fewer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import Fetches, WaitParts
from slowstep.analyses.steps.trainer import Trainer
from slowstep.shares import MOSTLY

ASKED = "the loader's index counts"
NOT_LEADING = f"{ASKED}, not the leading dimension"
# Leaving out broken samples keeps at least as many of the usual batch; what leaves fewer is another dimension.
KEPT_SHARE = 0.5

Floats = NDArray[np.float64]


def with_asked_samples(trainer: Trainer, fetches: Fetches, waits: WaitParts) -> Trainer:
    """The trainer, with the samples of its batches as its loaders were asked for them; as it was where that is not known.

    `waits` are those of all its batches.
    """
    asked = _asked(trainer, fetches, waits)
    known = np.isfinite(asked)
    if not known.any():
        return trainer
    got = ~(trainer.waits["exhausted"] | trainer.waits["failed"]).to_numpy()
    leading = trainer.waits["samples"].cast(pl.Float64).fill_null(np.nan).to_numpy()[got]
    # What the leading dimension counts in so many of the batches it counts in all of them.
    if (leading == asked)[known].mean() >= MOSTLY:
        return replace(trainer, samples_from=ASKED)
    usual = float(np.median(asked[known]))
    if usual <= 1 or _leaves_out(leading[known], asked[known]):
        return trainer
    samples = np.full(trainer.waits.height, -1, dtype=np.int64)
    samples[got] = np.where(known, asked, usual).astype(np.int64)
    counted = pl.Series("samples", samples).replace(-1, None)
    return replace(trainer, waits=trainer.waits.with_columns(counted), samples_from=NOT_LEADING)


def _asked(trainer: Trainer, fetches: Fetches, waits: WaitParts) -> Floats:
    """For each batch the samples that its own fetch was asked for, NaN where that was not recorded."""
    asked = np.full(len(waits.fetch), np.nan)
    has = np.flatnonzero(waits.fetch >= 0)
    fetch = waits.fetch[has]
    # The training process records its tiny fetches only now and then; a wait without one of its own has that of a wait before it.
    inside = (fetches.start_ns[fetch] >= waits.start_ns[has]) & (fetches.end_ns[fetch] <= waits.end_ns[has])
    own = inside | (fetches.process[fetch] != trainer.process)
    asked[has[own]] = fetches.samples[fetch[own]]
    asked[_made_of_several(trainer, fetches, waits)] = np.nan
    return asked


def _made_of_several(trainer: Trainer, fetches: Fetches, waits: WaitParts) -> NDArray[np.bool_]:
    """In which requests the training process itself made more than one batch."""
    here = fetches.start_ns[fetches.process == trainer.process]
    return np.asarray(np.searchsorted(here, waits.end_ns) - np.searchsorted(here, waits.start_ns) > 1)


def _leaves_out(leading: Floats, asked: Floats) -> bool:
    """Whether batches hold, now more, now less, a little fewer samples than were asked for."""
    sizes, times = np.unique(asked, return_counts=True)
    full = leading[asked == sizes[times.argmax()]]
    return bool((leading <= asked).all() and len(np.unique(full)) > 1 and np.median(full) >= KEPT_SHARE * sizes[times.argmax()])
