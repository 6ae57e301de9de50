"""Stretches in which the whole process was suspended: stopped by a signal or a debugger, or with a machine that was asleep.

The stack sampler wakes at least seven times a second whatever the training thread does. Where it fell silent and the training thread
used no processor and waited for none, nothing of the process ran. That is no part of any step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# Fifteen rounds of the sampler. Code that holds the GIL silences it too, but uses the processor meanwhile.
SILENT_NS = 2_000_000_000
# Of a silence, the training thread must not have run or queued for this share.
STILL_SHARE = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspensions:
    """When the process was suspended, sorted. Empty where no stacks or no readings of the thread's clock tell."""

    start_ns: Ints
    end_ns: Ints

    def holds(self, edges_ns: Ints) -> NDArray[np.bool_]:
        """Which of the stretches between `edges_ns` contain a stop, or a part of one."""
        return stretches_that_hold(zip(self.start_ns.tolist(), self.end_ns.tolist(), strict=True), edges_ns)

    def within(self, low_ns: int, high_ns: int) -> tuple[int, float]:
        """How many stops there were between two instants, and how many seconds they took."""
        length = np.minimum(self.end_ns, high_ns) - np.maximum(self.start_ns, low_ns)
        return int((length > 0).sum()), float(length[length > 0].sum()) / 1e9


def stretches_that_hold(intervals: Iterable[tuple[int, int]], edges_ns: Ints) -> NDArray[np.bool_]:
    """Which of the stretches between `edges_ns` contain an interval, or a part of one."""
    found = np.zeros(max(len(edges_ns) - 1, 0), dtype=bool)
    for start, end in intervals:
        first = max(int(np.searchsorted(edges_ns, start, side="right")) - 1, 0)
        found[first : int(np.searchsorted(edges_ns, end, side="left"))] = True
    return found


NO_SUSPENSIONS = Suspensions(start_ns=np.zeros(0, np.int64), end_ns=np.zeros(0, np.int64))


def find_suspensions(timeline: Timeline, trainer: Trainer) -> Suspensions:
    """The silences of the trainer's process."""
    mine = (pl.col("process") == trainer.process) & (pl.col("thread") == trainer.thread)
    taken = timeline.table("stacks").filter(mine)["time_ns"].sort().to_numpy()
    marks = timeline.table("cpu_marks").filter(mine).sort("time_ns")
    silent = np.flatnonzero(np.diff(taken) >= SILENT_NS)
    start, end = taken[silent], taken[silent + 1]
    still = [_stood_still(marks, low, high) for low, high in zip(start.tolist(), end.tolist(), strict=True)]
    return Suspensions(start_ns=start[still], end_ns=end[still])


def _stood_still(marks: pl.DataFrame, start: int, end: int) -> bool:
    time = marks["time_ns"].to_numpy()
    before, after = int(np.searchsorted(time, start, side="right")) - 1, int(np.searchsorted(time, end, side="left"))
    if before < 0 or after >= len(time):
        return False
    first, last = marks.row(before, named=True), marks.row(after, named=True)
    idle = sum(sign * last[name] - sign * first[name] for name, sign in (("time_ns", 1), ("cpu_ns", -1), ("delay_ns", -1)))
    return bool(idle >= STILL_SHARE * (end - start))
