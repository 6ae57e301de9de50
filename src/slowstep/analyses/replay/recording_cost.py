"""What a profiler takes of the host's own time: so much for each event that it writes down, on the thread that meanwhile waits for it.

A profiled step is longer than the same step alone, and not evenly: a loop of small operators may take twice as long, a sleep takes no
longer. So a gain that is read off a trace as it is promises too much where what is removed is full of events, and too little where what
stays is. Known where the source says so, of a profiler that writes its events on the thread itself; of others nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import observing
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# How a step is replayed: with all that was recorded, or without what recording it takes: usually, and at most.
AS_RECORDED: Final = "as-recorded"
LESS_USUAL_COST: Final = "less-usual-cost"  # of the profiler
LESS_MOST_COST: Final = "less-most-cost"  # the highest that it may be

# Nanoseconds for each event, usual and at most: an operator or a range, what its shapes add, a Python function.
OPERATOR_NS, SHAPES_NS, FUNCTION_NS = (
    (each.value, each.bounds[1]) for each in (observing.PROFILED_OPERATOR, observing.PROFILED_SHAPES, observing.PROFILED_FUNCTION)
)
# Less than this share of a step changes no gain that could be told from 1.
MATTERS_FROM: Final = 0.005


@dataclass(frozen=True, slots=True)
class HostClock:
    """A thread's time, and how much of it before each instant the profiler took. Arrays of shape (n,), ns, in order."""

    instants: Ints
    taken: Ints

    @classmethod
    def of(cls, instants: Ints, cost_ns: Floats) -> HostClock:
        """From instants at which something was written down, and what that took: at most the time since the instant before."""
        if not len(instants):
            return cls(instants, instants)
        at, which = np.unique(instants, return_inverse=True)
        cost = np.bincount(which, weights=cost_ns, minlength=len(at)).astype(np.int64)
        # What was written first was so right before.
        at, cost = np.append(at[:1] - cost[:1], at), np.append(0, cost)
        return cls(at, np.cumsum(np.minimum(cost, np.diff(at, prepend=at[:1]))))

    def own(self, at_ns: Ints) -> Ints:
        """Instants as they were without what the profiler took before them."""
        if not len(self.instants):
            return at_ns
        return np.asarray(at_ns - np.rint(np.interp(at_ns, self.instants, self.taken, left=0.0)).astype(np.int64))

    @property
    def taken_ns(self) -> int:
        """What the profiler took in all."""
        return int(self.taken[-1]) if len(self.taken) else 0


@dataclass(frozen=True, slots=True)
class ProfilerRecords:
    """What the profiler wrote down on the logical thread that trains (threads that take turns), and what each kind of event costs it.

    `cost_ns` has, by level, ns of each kind of host event. Events are read step by step: of a whole trace they are many.
    """

    timeline: Timeline
    threads: frozenset[int]
    cost_ns: Mapping[str, Mapping[str, float]]

    def clocks(self, begin_ns: int, end_ns: int) -> dict[str, HostClock]:
        """The thread's time from begin_ns to end_ns without the cost of each level; empty where that is too little to matter."""
        rows = self.timeline.rows("host_events", "thread", "kind", "start_ns", "end_ns")
        inside = (pl.col("start_ns") >= begin_ns) & (pl.col("start_ns") < end_ns) & pl.col("thread").is_in(list(self.threads))
        rows = rows.filter(inside).with_columns(pl.col("kind").cast(pl.String))
        instants = np.concatenate((rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()))
        clocks = {}
        for level, costs in self.cost_ns.items():
            # Half of it is written as an event begins, half as it ends.
            half = rows["kind"].replace_strict(dict(costs), default=0.0, return_dtype=pl.Float64).to_numpy() / 2
            clocks[level] = HostClock.of(instants, np.concatenate((half, half)))
        return clocks if clocks[LESS_USUAL_COST].taken_ns >= MATTERS_FROM * (end_ns - begin_ns) else {}


def find_profiler_records(timeline: Timeline, threads: Collection[int]) -> ProfilerRecords | None:
    """What recording these threads cost, which take turns; None where that is not known."""
    facts = timeline.trace
    if facts is None or not facts.costs_its_threads:
        return None
    costs = {}
    for number, level in enumerate((LESS_USUAL_COST, LESS_MOST_COST)):
        operator = OPERATOR_NS[number] + (SHAPES_NS[number] if "shapes" in facts.recorded else 0.0)
        costs[level] = {"operator": operator, "annotation": operator, "python": FUNCTION_NS[number]}
    return ProfilerRecords(timeline, frozenset(threads), costs)
