"""Batches: which there are between updates, how many samples each holds, and where their size changes for good."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.trainer import LEADING, Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.timeline.intervals import Ints

# So many batches in a row, one loader's last ones aside, are of a size that was chosen; a warm-up's medians are of as many steps.
LEVEL_BATCHES = 10
# Nearly all batches are of such sizes where sizes are changed now and then; else they vary from batch to batch.
LEVELS_HOLD = 0.9
# A single size is the usual one where nearly all batches have it; else the sizes of nine in ten are given.
USUAL_SHARE = 0.95
MOST_PERCENT = (5, 95)
# What is seen in fewer steps is an exception: a step that was recorded from its middle on.
SOMETIMES = 0.05
# In so many of the steps in which samples and forwards are both known they tell the same.
AGREE = 0.9

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeChange:
    """The batch size changed for good at this step, counted from the training's first."""

    step: int
    before: int
    after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Batches:
    """The batches of the stretches between boundaries."""

    samples: Floats  # of each stretch, NaN where unknown
    sizes: Ints | None  # of each batch, by iterator and time; None where one of them is unknown
    stretch: Ints  # in which each of those lies; -1 before the first
    size_from: str
    is_size_assumed: bool  # by what the model was called with: samples may lie along another dimension than the first
    per_step: float | None  # batches that the usual step trains on; None where no batch was seen
    requests_per_step: float | None  # those that it asks for: more where it makes one of several
    changes: tuple[SizeChange, ...]
    counted_size: int | None = None  # of the usual batch, where they were only counted

    def usual(self, first: int, last: int) -> int | None:
        """The size that most batches of these stretches have; of several the largest."""
        sizes = self._of(first, last)
        if not len(sizes):
            return self.counted_size
        known, times = np.unique(sizes, return_counts=True)
        return int(known[times == times.max()][-1])

    def sizes_within(self, first: int, last: int) -> tuple[int, int] | None:
        """The smallest and the largest usual size of these stretches' batches; None where there is one size. An epoch's rest is none."""
        every = self._of(first, last)
        sizes = every[_no_rests(every)]
        if not len(sizes) or np.unique(sizes, return_counts=True)[1].max() >= USUAL_SHARE * len(sizes):
            return None
        # Of sizes that vary from batch to batch many a smaller one only looks like a rest.
        sizes = sizes if len(_levels(sizes)) else every
        low, high = (np.percentile(sizes, percent, method="nearest") for percent in MOST_PERCENT)
        return (int(low), int(high)) if low < high else None

    def _of(self, first: int, last: int) -> Ints:
        """Those of these stretches that hold a sample: no training is one of empty batches."""
        if self.sizes is None:
            return np.zeros(0, dtype=np.int64)
        return self.sizes[(self.stretch >= first) & (self.stretch < last) & (self.sizes > 0)]


def find_batches(trainer: Trainer, edges: Ints, totals: pl.DataFrame) -> Batches:
    """The batches between boundaries; `totals` are of steps that were only counted."""
    asked = got = trainer.waits.filter(GAVE_BATCH)
    origin, order, is_assumed = trainer.samples_from, ["iterator", "start_ns"], got.is_empty() or trainer.samples_from == LEADING
    if got.is_empty():
        asked = got = _forwards_of_batches(trainer, edges)
        origin, order = "leading dimension of the forward's input and output (assumed)", ["start_ns"]
    elif trainer.joins_batches:
        calls = trainer.spans.filter(pl.col("kind") == "forward").with_columns(pl.col("gradients").fill_null(True))
        got = _joined_samples(*(table.with_columns(step=_stretch(edges, table)) for table in (got, calls)))
    count = len(edges) - 1
    step = _stretch(edges, got)
    inside = (step >= 0) & (step < count)
    per_step, requests_per_step = (_usual_count(table, edges) for table in (got, asked))
    found = Batches(
        samples=np.full(count, np.nan),
        sizes=None,
        stretch=np.zeros(0, dtype=np.int64),
        size_from=origin,
        is_size_assumed=is_assumed,
        per_step=per_step,
        requests_per_step=requests_per_step,
        changes=(),
    )
    if got.is_empty() or got["samples"].has_nulls():
        return found
    per_batch = got["samples"].to_numpy().astype(np.float64)
    samples = np.bincount(step[inside], weights=per_batch[inside], minlength=count).astype(np.float64)
    ordered = got.sort(order)
    sizes, changes = ordered["samples"].to_numpy(), _changes(got.sort("start_ns"), edges, totals)
    return replace(found, samples=samples, sizes=sizes, stretch=_stretch(edges, ordered), changes=changes)


def _joined_samples(got: pl.DataFrame, forwards: pl.DataFrame) -> pl.DataFrame:
    """One batch for each step in place of those that it asks for (`got`, with its `step`), with as many samples as it trains on: all that
    were asked for, or those of the last batch where no other one was chosen. Null where the `forwards` (with their `step`, and whether they
    have `gradients`) tell neither: of what was packed, or drawn from a buffer, they say nothing of samples.
    """
    order = got.sort("start_ns")
    steps = order.group_by("step", maintain_order=True).agg(
        pl.col("iterator", "start_ns").first(),
        pl.len().alias("requests"),
        pl.when(pl.col("samples").null_count() == 0).then(pl.col("samples").sum()).first().alias("all"),
        pl.col("samples").last().alias("last"),
    )
    each = steps.join(_training_calls(forwards), on="step", how="inner").join(_looked_at(forwards), on="step", how="left")
    only = pl.when(pl.col("each").list.len() == 1).then(pl.col("each").list.first())
    whole = (pl.col("in_all") == pl.col("all")) | (only == pl.col("all"))
    # Packed into one row several batches of one sample, or of as many each, look the same: a filter is irregular, or looks at them first.
    is_choice = (pl.col("looked_at") == pl.col("all")) | (pl.lit(_is_irregular(steps["requests"])) & (pl.col("last") > 1))
    chosen = (only == pl.col("last")) & (pl.col("calls") == 1) & is_choice
    agreeing = each.select(all=whole.fill_null(False).mean(), last=chosen.fill_null(False).mean())
    columns = [name for name in ("all", "last") if (agreeing[name][0] or 0.0) >= AGREE]
    samples = pl.col(columns[0]) if columns else pl.lit(None, pl.Int64)
    return steps.select("iterator", "start_ns", samples.cast(pl.Int64).alias("samples"))


def _training_calls(forwards: pl.DataFrame) -> pl.DataFrame:
    """How often each step calls models with gradients, and on how many samples; without those of which that is not known of every call."""
    called = forwards.filter("gradients").group_by("step")
    known = pl.col("samples").is_not_null().all().alias("known")
    sizes = called.agg(known, calls=pl.len(), in_all=pl.col("samples").sum(), each=pl.col("samples").unique())
    return sizes.filter("known").drop("known")


def _looked_at(forwards: pl.DataFrame) -> pl.DataFrame:
    """On how many samples each step calls models without gradients."""
    return forwards.filter(~pl.col("gradients")).group_by("step").agg(looked_at=pl.col("samples").sum())


def _is_irregular(requests: pl.Series) -> bool:
    """Whether steps ask for different numbers of batches, beside an epoch's rest."""
    return requests.len() > 0 and float(requests.value_counts()["count"].max()) < AGREE * requests.len()  # type: ignore[arg-type]


def _usual_count(batches: pl.DataFrame, edges: Ints) -> float | None:
    """How many lie in the usual stretch; None where none lies in any."""
    step, count = _stretch(edges, batches), len(edges) - 1
    inside = (step >= 0) & (step < count)
    return float(np.median(np.bincount(step[inside], minlength=count))) if inside.any() else None


def _stretch(edges: Ints, got: pl.DataFrame) -> Ints:
    return np.searchsorted(edges, got["start_ns"].to_numpy(), side="right") - 1


def _no_rests(sizes: Ints) -> NDArray[np.bool_]:
    """Which are no single batches that are smaller than the one before: what was left of an epoch."""
    rest = (np.diff(sizes, prepend=sizes[:1]) < 0) & (np.append(sizes[1:], -1) != sizes)
    return np.asarray(~rest)


def _levels(sizes: Ints) -> Ints:
    """Where long rows of batches of one size begin; empty where those are not nearly all."""
    begins = np.flatnonzero(np.diff(sizes, prepend=-1) != 0)
    lengths = np.diff(np.append(begins, len(sizes)))
    long = lengths >= LEVEL_BATCHES
    return begins[long] if lengths[long].sum() >= LEVELS_HOLD * len(sizes) else begins[:0]


def _changes(got: pl.DataFrame, edges: Ints, totals: pl.DataFrame) -> tuple[SizeChange, ...]:
    """Where the size changes for good: from many batches of one size to many of another."""
    kept = np.flatnonzero(_no_rests(got["samples"].to_numpy()))
    sizes = got["samples"].to_numpy()[kept]
    found = []
    for before, here in pairwise(_levels(sizes).tolist()):
        if sizes[before] != sizes[here]:
            time = int(got["start_ns"][int(kept[here])])
            counted = int(totals.filter(pl.col("end_ns") <= time)["steps"].sum())
            # The first boundary ends the first step.
            step = int(np.searchsorted(edges, time, side="right")) + 1 + counted
            found.append(SizeChange(step=step, before=int(sizes[before]), after=int(sizes[here])))
    return tuple(found)


def _forwards_of_batches(trainer: Trainer, edges: Ints) -> pl.DataFrame:
    """The forwards that show a batch where there is no loader: the first of each step, and those of its further micro-batches.

    Teachers and discriminators that follow see the same samples. So of several modules, and before the first's backward, none is counted.
    A closure, inside an update, evaluates one batch again and again. Where backward passes come before it too, that batch may be another
    one (of accumulated gradients the last) or the same (of two steps that look ahead): how many there are is unknown then.
    """
    got = trainer.training_forwards
    got = trainer.spans.filter(pl.col("kind") == "forward") if got.is_empty() else got
    start = got["start_ns"].to_numpy()
    shows = np.diff(np.searchsorted(edges, start, side="right"), prepend=-1) != 0
    if got["module"].n_unique() != 1:
        return got.filter(pl.Series(shows, dtype=pl.Boolean))
    backward = np.sort(trainer.backwards["end_ns"].to_numpy())
    further = ~shows & (np.diff(np.searchsorted(backward, start), prepend=-1) != 0)
    update = np.searchsorted(trainer.update_start_ns, start, side="right") - 1
    inside = (update >= 0) & (start < trainer.update_end_ns[np.maximum(update, 0)])
    first_inside = inside & (np.diff(np.where(inside, update, -1), prepend=-1) != 0)
    if (further & first_inside).sum() >= SOMETIMES * len(trainer.update_end_ns):
        return got.clear()
    return got.filter(pl.Series(shows | (further & ~inside), dtype=pl.Boolean))
