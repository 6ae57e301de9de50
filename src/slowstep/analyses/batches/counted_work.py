"""Input that a framework only counts: how long each step's computing waited for it, and how long it computed, from sums over windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints
from slowstep.timeline.spine import Counted
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedWork:
    """What the framework's own threads did, by stretch of `Steps`. A window holds many steps: what is in one of them is estimated, in all
    together it is exact.
    """

    waits: tuple[Counted, ...]
    waited_ns: Floats
    busy_ns: Floats | None  # None where nobody counts it
    batches: float  # per step, on average
    num_workers: int | None  # beside the training; None where no input is counted, or it is not known who makes it
    dataset: str | None
    is_asynchronous: bool  # what calls the framework goes on meanwhile
    hides_waits: bool = False  # its calls, or some of them, wait for input too, and nothing shows how long

    @property
    def data_set(self) -> str | None:
        """What it reads, in words."""
        return None if self.dataset is None else f"data set {self.dataset}"


def find_counted(timeline: Timeline, trainer: Trainer, steps: Steps) -> CountedWork | None:
    """What was counted for the training's thread; None where nothing was, and the host's time in the framework's calls is their work."""
    mine = pl.col("process") == trainer.process, pl.col("thread") == trainer.thread
    rows = timeline.table("aggregates").filter(*mine, pl.col("end_ns") > pl.col("start_ns")).sort("start_ns")
    waits, busy = (rows.filter(pl.col("kind") == kind) for kind in ("wait", "update"))
    # Some calls may have counted, before they were compiled anew.
    hides_waits = hides_its_waits(trainer)
    if waits.is_empty() and not (trainer.is_asynchronous or hides_waits):
        return None
    read = timeline.table("iterators").filter(
        pl.col("process") == trainer.process, pl.col("iterator").is_in(waits["iterator"].unique().to_list())
    )
    made: dict[str, Any] = read.row(-1, named=True) if read.height else {"num_workers": None, "dataset": None}
    return CountedWork(
        waits=tuple(Counted(**row) for row in waits.select("start_ns", "end_ns", "count", "total_ns").iter_rows(named=True)),
        waited_ns=_by_stretch(waits, "total_ns", steps),
        busy_ns=None if busy.is_empty() else _by_stretch(busy, "total_ns", steps),
        batches=float(_by_stretch(waits, "count", steps)[~steps.excluded].mean()),
        num_workers=made["num_workers"],
        dataset=made["dataset"],
        is_asynchronous=trainer.is_asynchronous,
        hides_waits=hides_waits,
    )


def hides_its_waits(trainer: Trainer) -> bool:
    """Whether the calls that train, or some of them, wait for input too, and nothing shows how long."""
    return not trainer.is_asynchronous and bool(trainer.facts.notes["facts"].get("waits_inside"))


def _by_stretch(rows: pl.DataFrame, column: str, steps: Steps) -> Floats:
    """What a column of the windows comes to in each stretch: of each window in proportion to the time, and where none was, as in all."""
    if rows.is_empty():
        return np.zeros(steps.stretches)
    start, end = (np.asarray(rows[edge].to_numpy()) for edge in ("start_ns", "end_ns"))
    rate = rows[column].to_numpy() / (end - start)
    known, ns = (np.diff(_up_to(steps.edges_ns, start, end, each)) for each in (np.ones(len(rate)), rate))
    usual = float((rate * (end - start)).sum() / (end - start).sum())
    return np.asarray(ns + usual * np.maximum(np.diff(steps.edges_ns) - known, 0.0))


def _up_to(at: Ints, start: Ints, end: Ints, rate: Floats) -> Floats:
    """The sum of `rate` over time, from the first window up to each instant; windows do not overlap."""
    whole = np.concatenate(([0.0], np.cumsum(rate * (end - start))))
    inside = np.maximum(np.searchsorted(start, at, side="right") - 1, 0)
    part = np.clip(at - start[inside], 0, (end - start)[inside]) * rate[inside]
    return np.asarray(whole[inside] + part)
