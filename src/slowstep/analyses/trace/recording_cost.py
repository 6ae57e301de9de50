"""What a profiler takes of the host's own time: so much for each event that it writes down, on the thread that meanwhile waits for it.

A profiled step is longer than the same step alone, and not evenly: a loop of small operators may take twice as long, a sleep takes no
longer. So a gain that is read off a trace as it is promises too much where what is removed is full of events, and too little where what
stays is. Known for PyTorch's profiler, which writes its events on the thread itself; of others nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.steps import Floats
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# How a step is replayed: with all that was recorded, or without what recording it takes: usually, and at most.
AS_RECORDED: Final = "as recorded"
LESS_USUAL_COST: Final = "without the profiler's usual cost"
LESS_MOST_COST: Final = "without the profiler's highest cost"

# Nanoseconds for each event, usual and at most, by benchmarks/profiler_cost.py (see benchmarks/README.md).
OPERATOR_NS: Final = (1_000.0, 2_000.0)
SHAPES_NS: Final = (1_000.0, 2_000.0)
FUNCTION_NS: Final = (500.0, 1_000.0)
# Less than this share of a step changes no gain that could be told from 1.
MATTERS_FROM: Final = 0.005


@dataclass(frozen=True, slots=True)
class HostClock:
    """A thread's time, and how much of it before each instant the profiler took. Arrays of shape (n,), ns, in order."""

    instants: Ints
    taken: Floats

    @classmethod
    def of(cls, instants: Ints, cost_ns: Floats) -> HostClock:
        """From instants at which something was written down, and what each took. What is written takes no more time than there was."""
        order = np.argsort(instants, kind="stable")
        at = instants[order]
        left = np.maximum.accumulate(at - np.cumsum(cost_ns[order]))
        return cls(at, at - left)

    def own(self, at_ns: Ints) -> Floats:
        """Instants as they were without what the profiler took before them."""
        if not len(self.instants):
            return at_ns.astype(np.float64)
        return np.asarray(at_ns - np.interp(at_ns, self.instants, self.taken, left=0.0))


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded on the logical thread that trains: where each event begins and ends, and what its kind costs, usually and at most."""

    instants: Ints
    usual_ns: Floats
    most_ns: Floats

    def clock(self, level: str, begin_ns: int, end_ns: int) -> HostClock:
        """The thread's time from begin_ns to end_ns without the cost of a level."""
        rows = slice(*np.searchsorted(self.instants, [begin_ns, end_ns]))
        cost = {LESS_USUAL_COST: self.usual_ns, LESS_MOST_COST: self.most_ns}[level]
        return HostClock.of(self.instants[rows], cost[rows])

    def usual_share(self, begin_ns: int, end_ns: int) -> float:
        """Which share of a stretch of time recording it usually takes."""
        rows = slice(*np.searchsorted(self.instants, [begin_ns, end_ns]))
        return float(self.usual_ns[rows].sum()) / max(end_ns - begin_ns, 1)


def find_recording(timeline: Timeline, threads: Collection[int]) -> Recording | None:
    """What the profiler wrote down on these threads, which take turns; None where what that costs is not known."""
    facts = timeline.trace
    if facts is None or not facts.format.startswith("Kineto"):
        return None
    rows = timeline.rows("host_events", "thread", "kind", "start_ns", "end_ns")
    rows = rows.filter(pl.col("thread").is_in(list(threads)))
    shaped = "shapes" in facts.recorded
    operator = [each + more * shaped for each, more in zip(OPERATOR_NS, SHAPES_NS, strict=True)]
    kind = pl.col("kind").cast(pl.String)
    columns = {
        name: pl.when(kind.is_in(["operator", "annotation"])).then(operator[n]).when(kind == "python").then(FUNCTION_NS[n]).otherwise(0.0)
        for n, name in enumerate(("usual", "most"))
    }
    costs = rows.select("start_ns", "end_ns", **columns).filter(pl.col("most") > 0)
    # Half of it is written as an event begins, half as it ends.
    both = [costs.select("usual", "most", at=pl.col(end)) for end in ("start_ns", "end_ns")]
    events = pl.concat(both).sort("at")
    return Recording(events["at"].to_numpy(), events["usual"].to_numpy() / 2, events["most"].to_numpy() / 2)
