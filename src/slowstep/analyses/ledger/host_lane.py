"""What one host thread was doing at given instants, as far as it explains an idle device: named ranges, waiting calls, anything."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.analyses.events.training_thread import training_thread
from slowstep.analyses.events.unions import merged
from slowstep.analyses.ledger.own_work import own_work
from slowstep.analyses.ledger.stage_ranges import stage_ranges
from slowstep.timeline.intervals import Ints, containing, flattened, union
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON

NEVER = np.iinfo(np.int64).min


class WaitingCalls:
    """The calls of all threads that wait for the device, by row number; of calls inside each other only the outermost."""

    def __init__(self, rows: pl.DataFrame) -> None:
        reach = pl.col("end_ns").cum_max().shift(1).over("thread")
        ordered = rows.sort("thread", "start_ns", "end_ns", "name", descending=[False, False, True, False])
        self.rows = ordered.filter(reach.is_null() | (pl.col("end_ns") > reach))
        self._ends = np.append(self.rows["end_ns"].to_numpy(), NEVER)

    def ends(self, rows: Ints) -> Ints:
        """When the calls returned, shape (n,); for row -1 long ago."""
        return np.asarray(self._ends[rows])


class Lane:
    """One thread. Rows are those of the tables `Lanes.ranges` and `Calls.rows`; -1 is none."""

    def __init__(self, thread: int, timeline: Timeline, ranges: pl.DataFrame, calls: WaitingCalls, own: pl.DataFrame) -> None:
        self.thread = thread
        self.calls = calls
        self._own = merged(own.filter(pl.col("thread") == thread))
        self._timeline = timeline
        self._named = _flat(ranges, thread)
        self._waiting = _flat(calls.rows, thread)

    @property
    def edges(self) -> Ints:
        """The instants at which the answer of `named_at` or `works_at` changes."""
        return np.concatenate((*self._named[:2], *self._own))

    def named_at(self, at_ns: Ints) -> Ints:
        """The innermost named range that is open at each instant."""
        return _row(self._named, at_ns)

    def waiting_at(self, at_ns: Ints) -> Ints:
        """The waiting call that is open at each instant."""
        return _row(self._waiting, at_ns)

    def works_at(self, at_ns: Ints) -> NDArray[np.bool_]:
        """Whether the thread does something of its own at each instant, as `own_work.py` has it."""
        return np.asarray(containing(*self._own, at_ns) >= 0)

    @cached_property
    def _busy(self) -> tuple[Ints, Ints]:
        host = self._timeline.rows("host_events", "thread", "start_ns", "end_ns", kinds=NOT_PYTHON)
        mine = host.filter(pl.col("thread") == self.thread)
        return union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())

    def busy_at(self, at_ns: Ints) -> NDArray[np.bool_]:
        """Whether anything but a Python function is open at each instant."""
        return np.asarray(containing(*self._busy, at_ns) >= 0)

    @property
    def busy_edges(self) -> Ints:
        """The instants at which the answer of `busy_at` changes."""
        return np.concatenate(self._busy)


class Lanes:
    """The host threads of a trace. `training` is the one that trains, None where there are no host events."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.ranges = stage_ranges(timeline)
        self.calls = WaitingCalls(synchronizing_calls(timeline))
        self.own = own_work(timeline)
        self.training = training_thread(timeline)
        self._lanes: dict[int, Lane] = {}

    def lane(self, thread: int) -> Lane:
        """One thread by its index."""
        if thread not in self._lanes:
            self._lanes[thread] = Lane(thread, self._timeline, self.ranges, self.calls, self.own)
        return self._lanes[thread]


def _flat(rows: pl.DataFrame, thread: int) -> tuple[Ints, Ints, Ints]:
    mine = np.flatnonzero((rows["thread"] == thread).to_numpy())
    start, end, owner = flattened(rows["start_ns"].to_numpy()[mine], rows["end_ns"].to_numpy()[mine])
    return start, end, mine[owner]


def _row(flat: tuple[Ints, Ints, Ints], at_ns: Ints) -> Ints:
    found = containing(flat[0], flat[1], at_ns)
    return np.append(flat[2], -1)[found]
