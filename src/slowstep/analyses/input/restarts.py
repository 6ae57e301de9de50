"""Restarts of the training's loader: how often its iterators are made, what that takes, and whether they are used up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.batches.producers import Fetches, WaitParts
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.garbage import OLDEST
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.parts import PartKind
from slowstep.timeline.intervals import containing
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Restarts:
    """Iterators of the training's loaders that were made in the window. None is unknown."""

    count: int
    with_workers: int  # of them, those whose workers were started anew
    forks_per_step: float  # of these, those that forked the training's process, at most one counted of each step
    used_up: int  # of them, those that were read to their end
    cut_short: int  # of them, those that were left before their last batch
    batches_each: float | None  # read from each
    start_ns: Floats  # per step: starting the loader, ending its workers, and freeing what its iterators hold
    cold_ns: Floats  # per step: what the first batches took longer than others, because a new worker made them
    collected_ns: Floats  # per step: garbage collections up to the first batches that walk young objects: what a new iterator has made


def find_restarts(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger, fetches: Fetches, waits: WaitParts) -> Restarts:
    """Count the starts in the window and measure what they take."""
    low, high = int(steps.edges_ns[0]), int(steps.edges_ns[-1])
    starts = trainer.starts.filter(pl.col("start_ns") >= low, pl.col("start_ns") < high)
    asked = trainer.waits.filter(pl.col("start_ns") >= low, pl.col("start_ns") < high)
    with_workers, forks = _with_new_workers(timeline, trainer, starts)
    got = asked.filter(GAVE_BATCH).height
    used_up, cut_short = _endings(timeline, trainer, starts, asked)
    return Restarts(
        count=starts.height,
        with_workers=with_workers,
        forks_per_step=min(forks / max(steps.count, 1), 1.0),
        used_up=used_up,
        cut_short=cut_short,
        batches_each=got / starts.height if starts.height else None,
        start_ns=ledger.of("preprocess", PartKind.LOADER_START) + ledger.of("preprocess", PartKind.LOADER_END),
        cold_ns=_cold(steps, fetches, waits),
        collected_ns=_collected(trainer, steps, waits),
    )


def _endings(timeline: Timeline, trainer: Trainer, starts: pl.DataFrame, asked: pl.DataFrame) -> tuple[int, int]:
    """How many were used up, and how many were not.

    Used up are those that were asked for one batch more than they have, and those that gave all: Lightning counts, and does not ask again.
    How many batches another's sampler makes is not known: then nothing is said.
    """
    iterators = timeline.table("iterators").filter(pl.col("process") == trainer.process).select("iterator", "batches")
    ends = asked.filter(pl.col("exhausted"))
    got = trainer.waits.filter(GAVE_BATCH).group_by("iterator").agg(pl.len().alias("got"))
    counted = starts.join(ends, on="iterator", how="anti").unique("iterator").join(got, on="iterator").join(iterators, on="iterator")
    gave_all = counted.filter(pl.col("got") >= pl.col("batches")).height
    return ends.height + gave_all, counted["batches"].count() - gave_all


def _with_new_workers(timeline: Timeline, trainer: Trainer, starts: pl.DataFrame) -> tuple[int, int]:
    """Starts with new workers, and those of them that forked."""
    iterators = timeline.table("iterators").filter(pl.col("process") == trainer.process).select("iterator", "persistent", "start_method")
    # Unknown is taken for persistent: then nothing is said of restarts.
    known = (
        starts.filter(pl.col("num_workers") > 0).join(iterators, on="iterator", how="inner").filter(~pl.col("persistent").fill_null(True))
    )
    return known.height, known.filter(pl.col("start_method").fill_null("fork") == "fork").height


def _collected(trainer: Trainer, steps: Steps, waits: WaitParts) -> Floats:
    """Collections of all but the oldest objects while an iterator is made, or makes its first batch."""
    young = trainer.collections.filter(pl.col("generation") < OLDEST)
    start, end = young["start_ns"].to_numpy(), young["end_ns"].to_numpy()
    begun = np.concatenate((trainer.starts["start_ns"].to_numpy(), waits.start_ns[waits.first]))
    over = np.concatenate((trainer.starts["end_ns"].to_numpy(), waits.end_ns[waits.first]))
    order = np.argsort(begun, kind="stable")
    step, mine = steps.stretch_at(start)
    mine &= containing(begun[order], over[order], start) >= 0
    ns = np.bincount(step[mine], weights=(end - start)[mine].astype(np.float64), minlength=steps.stretches)
    return np.asarray(ns[~steps.excluded], dtype=np.float64)


def _cold(steps: Steps, fetches: Fetches, waits: WaitParts) -> Floats:
    """Waits for the first batch of an iterator, as far as its making took longer than usual."""
    cold = np.zeros(steps.stretches)
    first = np.flatnonzero(waits.first & (waits.fetch >= 0))
    step, inside = steps.stretch_at(waits.start_ns[first])
    first, step = first[inside], step[inside]
    if len(first):
        usual = float(np.median(fetches.wall_ns))
        made = fetches.wall_ns[waits.fetch[first]]
        waited = (waits.end_ns - waits.start_ns)[first]
        np.add.at(cold, step, np.clip(np.minimum(made, waited) - usual, 0, None))
    return np.asarray(cold[~steps.excluded])
