"""The ledger of a trace: each step's time divided among the eight stages, exactly, and the device's gaps (table `gaps`).

An instant belongs to the first of these that runs on any stream of the device: compute kernel, copy within the device, filling of memory,
collective, copy to the device, copy from it. What is left is idle, and goes to the cause of the gap (`idle.py`). Of several devices the
one with most kernel time is judged. Without a device the training thread is charged (`host_ledger.py`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.device_work import busiest_device, device_work
from slowstep.analyses.events.parts import COLLECTIVES, COLUMNS, COPIES, DEVICE_COPIES, KERNELS, MEMSETS, rows_of
from slowstep.analyses.events.tables import GAPS
from slowstep.analyses.events.unions import merged
from slowstep.analyses.ledger.gap_rows import gap_rows
from slowstep.analyses.ledger.host_lane import Lanes
from slowstep.analyses.ledger.host_ledger import host_stretches
from slowstep.analyses.ledger.idle import explain, find_gaps
from slowstep.analyses.ledger.ledger import Ledger, ledger_of
from slowstep.analyses.python.callers import Callers
from slowstep.timeline.intervals import containing
from slowstep.timeline.timeline import Timeline

# Highest rank first: what runs beside something of higher rank is overlapped, and costs the step nothing.
RANKS: Final = (
    (("kernel",), KERNELS),
    (("d2d", "p2p"), DEVICE_COPIES),
    (("memset",), MEMSETS),
    (("collective",), COLLECTIVES),
    (("h2d",), COPIES["h2d"]),
    (("d2h",), COPIES["d2h"]),
)


def build_ledger(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> tuple[Ledger, pl.DataFrame]:
    """The ledger of the steps and the table `gaps`. Empty without steps.

    `callers`: those of the timeline, where they were made already.
    """
    if steps.is_empty():
        return Ledger(parts=(), ns=np.zeros((0, 0))), GAPS.empty()
    device = busiest_device(timeline)
    if device is None:
        return ledger_of(_with_length(host_stretches(timeline, steps)), steps.height), GAPS.empty()
    work = device_work(timeline, device)
    lanes = Lanes(timeline)
    found = find_gaps(work, int(steps["start_ns"][0]), int(steps["end_ns"][-1]))
    stretches = explain(lanes, found)
    gaps = gap_rows(timeline, stretches, steps, lanes, Callers(timeline) if callers is None else callers)
    return ledger_of(pl.concat([_busy_time(work, steps), _with_length(gaps)]), steps.height), gaps


def _with_length(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("step", *COLUMNS, ns=pl.col("end_ns") - pl.col("start_ns"))


def _busy_time(work: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Of each step the time in which the device worked, by what ran then: `step`, part, `ns`."""
    sums = _ranked(work, steps).group_by("step", "rank").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
    return sums.join(_named_ranks(), on="rank").select(pl.col("step").cast(pl.Int32), *COLUMNS, "ns")


def busy_stretches(work: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The same, stretch by stretch: `start_ns`, `end_ns` and the part."""
    return _ranked(work, steps).join(_named_ranks(), on="rank").select("start_ns", "end_ns", *COLUMNS)


def _ranked(work: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The stretches of the steps in which the device worked, with the highest of `RANKS` that ran then."""
    begins, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    unions = [merged(work.filter(pl.col("kind").is_in(kinds))) for kinds, _ in RANKS]
    edges = np.sort(np.concatenate([begins, ends, *(side for both in unions for side in both)]))
    edges = edges[np.append(True, np.diff(edges) > 0)]
    at, until = edges[:-1], edges[1:]
    rank = np.full(len(at), -1, dtype=np.int64)
    for number in reversed(range(len(RANKS))):
        rank = np.where(containing(*unions[number], at) >= 0, number, rank)
    step = containing(begins, ends, at)
    kept = (rank >= 0) & (step >= 0)
    return pl.DataFrame({"step": step[kept], "rank": rank[kept], "start_ns": at[kept], "end_ns": until[kept]})


def _named_ranks() -> pl.DataFrame:
    return rows_of(part for _, part in RANKS).with_columns(rank=pl.int_range(pl.len(), dtype=pl.Int64))
