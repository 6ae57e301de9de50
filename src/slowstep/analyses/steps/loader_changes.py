"""Where a training goes on with another loader: with other data, or with as many workers as it did not have before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from slowstep.analyses.steps.batches import LEVEL_BATCHES
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.timeline.timeline import Timeline
from slowstep.units import format_count

FACTS = ("dataset", "dataset_length", "num_workers")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderChange:
    """At this step, counted from the training's first, it went on with a loader that is another one by what is known of both, in words.

    `inside`: whether that is in the window.
    """

    step: int
    before: str
    after: str
    inside: bool


def find_loader_changes(timeline: Timeline, trainer: Trainer, steps: Steps) -> tuple[LoaderChange, ...]:
    """The changes for good, from many batches of one to many of another. None where loaders are read beside each other."""
    read = trainer.waits.filter(GAVE_BATCH).group_by("iterator")
    spans = read.agg(pl.col("start_ns").min().alias("first_ns"), pl.col("end_ns").max().alias("last_ns"), pl.len().alias("batches"))
    known = timeline.table("iterators").filter(pl.col("process") == trainer.process).unique("iterator", keep="last")
    rows = spans.join(known, on="iterator", how="inner").sort("first_ns")
    if (rows["first_ns"][1:] < rows["last_ns"][:-1]).any():
        return ()
    # Epochs of one loader follow each other, and so do loaders that are made anew of the same data.
    runs = rows.with_columns(pl.struct(FACTS).rle_id().alias("run")).group_by("run", maintain_order=True)
    stretches = runs.agg(pl.col("first_ns").first(), pl.col("batches").sum(), *(pl.col(name).first() for name in FACTS))
    lasting = stretches.filter(pl.col("batches") >= LEVEL_BATCHES).to_dicts()
    totals = timeline.table("totals").filter(pl.col("process") == trainer.process)
    begin_ns, end_ns = steps.bounds_ns
    found = []
    for before, after in pairwise(lasting):
        at_ns = after["first_ns"]
        if any(before[name] != after[name] for name in FACTS):
            counted = int(totals.filter(pl.col("end_ns") <= at_ns)["steps"].sum())
            step = int(np.searchsorted(trainer.update_end_ns, at_ns)) + 1 + counted
            inside = begin_ns < at_ns < end_ns
            found.append(LoaderChange(step=step, before=_named(before), after=_named(after), inside=inside))
    return tuple(found)


def _named(row: dict[str, object]) -> str:
    length, workers = row["dataset_length"], format_count(int(str(row["num_workers"] or 0)), "worker")
    of = "" if length is None else f"{length:,} samples, "
    return f"{row['dataset'] or 'a data set'} ({of}{workers})"
