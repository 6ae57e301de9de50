"""Python's garbage collections: how often, how long, of which objects, and who asked for them.

On the training thread each is a part of the ledger of its own, wherever it occurs; what it interrupts (a collate, a callback) is measured
without it. In a loader's worker it makes the batch late.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import covered_ns
from slowstep.timeline.timeline import Timeline

HOOK = "garbage_collections"
# The generation of what has outlived several collections: a full one walks it too.
OLDEST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """The collections of one generation in the window, by themselves or asked for."""

    generation: int
    asked: bool
    count: int
    total_ns: float
    longest_ns: float

    @property
    def each_ns(self) -> float:
        """Mean length of one."""
        return self.total_ns / self.count


@dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """What the collector took of the window. `kinds`: most time first."""

    recorded: bool  # else it is unknown whether there were any
    kinds: tuple[Collected, ...]  # on the training thread
    let_go: int  # objects that they found unreachable
    asked_at: str | None  # file:line that asked for most of those asked for
    in_workers_ns: float  # per step, while the loader's workers made batches
    in_waits_ns: float  # per step, on the training thread while it asked for batches: what it received is what set it off

    @property
    def count(self) -> int:
        """All of them, on the training thread."""
        return sum(kind.count for kind in self.kinds)


def collected_ns(timeline: Timeline, rows: pl.DataFrame) -> Floats:
    """How long the thread of each row (process, thread, start_ns, end_ns) collected garbage in it."""
    ns = np.zeros(rows.height)
    collections = timeline.table("collections").sort("start_ns")
    if collections.is_empty() or rows.is_empty():
        return ns
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    for (process, thread), own in collections.group_by("process", "thread"):
        mine = ((rows["process"] == process) & (rows["thread"] == thread)).to_numpy()
        first, last = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
        ns[mine] = covered_ns(first, last, end[mine]) - covered_ns(first, last, start[mine])
    return ns


def find_garbage(timeline: Timeline, trainer: Trainer, steps: Steps, in_workers_ns: float) -> Garbage:
    """Measure those of the window."""
    rows, waits = (_in_steps(table, steps) for table in (trainer.collections, trainer.waits))
    lines = Counter(rows.filter("asked")["asked_at"].drop_nulls().to_list())
    hooks = [note for note in trainer.facts.notes.get("hooks", ()) if note.get("name") == HOOK]
    return Garbage(
        recorded=any(note.get("state") == "on" for note in hooks) or not rows.is_empty(),
        kinds=_kinds(rows),
        let_go=int(rows["let_go"].sum()),
        asked_at=_shown(lines.most_common(1)[0][0], trainer) if lines else None,
        in_workers_ns=in_workers_ns,
        in_waits_ns=float(collected_ns(timeline, waits).sum()) / max(steps.count, 1),
    )


def _in_steps(rows: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Those of the window, without those that began in what is left out of it."""
    rows = rows.filter(pl.col("start_ns") >= int(steps.edges_ns[0]), pl.col("end_ns") <= int(steps.edges_ns[-1]))
    at = np.searchsorted(steps.edges_ns, rows["start_ns"].to_numpy(), side="right") - 1
    return rows.filter(pl.Series(~steps.excluded[np.clip(at, 0, steps.stretches - 1)])) if rows.height else rows


def _shown(line: str, trainer: Trainer) -> str:
    file, _, number = line.rpartition(":")
    return f"{shown(file, trainer.facts.script)}:{number}"


def _kinds(rows: pl.DataFrame) -> tuple[Collected, ...]:
    grouped = (
        rows.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
        .group_by("generation", "asked")
        .agg(pl.len().alias("count"), pl.col("ns").sum().alias("total_ns"), pl.col("ns").max().alias("longest_ns"))
        .sort("total_ns", descending=True)
    )
    return tuple(Collected(**row) for row in grouped.iter_rows(named=True))
