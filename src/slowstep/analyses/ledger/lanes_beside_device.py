"""What the host threads of a trace did, as far as it explains an idle device: named ranges, waiting calls, work of their own, anything."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.analyses.events.training_thread import training_thread
from slowstep.analyses.events.unions import merged
from slowstep.analyses.ledger.own_work import own_work
from slowstep.analyses.ledger.stage_ranges import stage_ranges
from slowstep.timeline.intervals import Ints, flattened, union
from slowstep.timeline.spine import LONG_AGO, HostLane, Labelled, Stretches
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON


class TraceLanes:
    """The host threads of a trace, as `HostLanes`. Labels of lanes are rows of the tables `ranges` and `calls`.

    `calls` are those of all threads that wait for the device; of calls inside each other only the outermost.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.ranges = stage_ranges(timeline)
        self.calls = _outermost(synchronizing_calls(timeline))
        self.training = training_thread(timeline)
        self._own = own_work(timeline)
        self._returned_ns = np.append(self.calls["end_ns"].to_numpy(), LONG_AGO)
        self._lanes: dict[int, HostLane] = {}

    def lane(self, thread: int) -> HostLane:
        """What a thread did, by its index."""
        if thread not in self._lanes:
            self._lanes[thread] = HostLane(
                thread=thread,
                named=_flat(self.ranges, thread),
                waiting=_flat(self.calls, thread),
                own=Stretches(*merged(self._own.filter(pl.col("thread") == thread))),
                # Not of this object, which holds the lane: what refers to itself keeps the whole timeline until the collector runs.
                find_busy=partial(_busy, self._timeline, thread),
            )
        return self._lanes[thread]

    def returned_ns(self, calls: Ints) -> Ints:
        """When calls returned, shape (n,); for NONE long ago."""
        return np.asarray(self._returned_ns[calls])


def _busy(timeline: Timeline, thread: int) -> Stretches:
    """When anything but a Python function is open."""
    # One column after the other: here an analysis holds most.
    threads = timeline.rows("host_events", "thread", kinds=NOT_PYTHON)["thread"]
    mine = np.flatnonzero((threads == thread).fill_null(value=False).to_numpy()).astype(np.uint32)
    start, end = (timeline.rows("host_events", edge, kinds=NOT_PYTHON)[edge].to_numpy()[mine] for edge in ("start_ns", "end_ns"))
    return Stretches(*union(start, end))


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    reach = pl.col("end_ns").cum_max().shift(1).over("thread")
    ordered = calls.sort("thread", "start_ns", "end_ns", "name", descending=[False, False, True, False])
    return ordered.filter(reach.is_null() | (pl.col("end_ns") > reach))


def _flat(rows: pl.DataFrame, thread: int) -> Labelled:
    mine = np.flatnonzero((rows["thread"] == thread).to_numpy())
    start, end, owner = flattened(rows["start_ns"].to_numpy()[mine], rows["end_ns"].to_numpy()[mine])
    return Labelled(start, end, mine[owner])
