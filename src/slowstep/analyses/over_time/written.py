"""Whether steps write more and more: what the training's processes write, by the kernel's count, early and late in the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trends import is_steady
from slowstep.timeline.timeline import Timeline

# Readings inside the window, at least; they are taken once a second, and between them lies a line.
FEWEST_READINGS = 4
PARTS = 3
GROWS_BY = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenBytes:
    """Bytes that a step writes at the beginning of the run and at its end, by a line through the first and the last third."""

    first_bytes: float
    last_bytes: float
    steadily: bool  # what the middle third writes lies well between the two

    @property
    def grows(self) -> bool:
        """Whether what a step writes grows with the run, steadily and by half at least: a few more files late in it do not do that."""
        return self.steadily and self.growth_bytes > 0 and self.last_bytes >= GROWS_BY * self.first_bytes

    @property
    def growth_bytes(self) -> float:
        """By how much more the last step writes than the first one."""
        return self.last_bytes - self.first_bytes


def find_written(timeline: Timeline, steps: Steps) -> WrittenBytes | None:
    """By the counters of the process tree; None where these were not read often enough, or there are too few steps."""
    readings = timeline.table("tree_io").filter(pl.col("written_bytes") >= 0).sort("time_ns")
    time, count = readings["time_ns"].to_numpy(), readings["written_bytes"].to_numpy()
    low, high = steps.bounds_ns
    if ((time >= low) & (time <= high)).sum() < FEWEST_READINGS or steps.stretches < PARTS:
        return None
    thirds = np.array_split(np.arange(steps.stretches), PARTS)
    edges = [steps.edges_ns[0], *(steps.edges_ns[third[-1] + 1] for third in thirds)]
    each = np.diff(np.interp(edges, time, count)) / [len(third) for third in thirds]
    # Between the middles of the two lie two thirds of the run.
    beyond = float(each[2] - each[0]) / 4
    steadily = is_steady(*map(float, each))
    return WrittenBytes(first_bytes=max(float(each[0]) - beyond, 0.0), last_bytes=float(each[2]) + beyond, steadily=steadily)
