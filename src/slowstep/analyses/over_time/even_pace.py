"""A part's time as it would be if the machine kept its pace, which the training's own work beside it tells.

Others on a machine slow one kind of code more than another: a part's time goes by a power of that work's, fitted in the run itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trends import BLOCKS, STEPS_PER_BLOCK, block_levels, block_medians, find_trend
from slowstep.calibration import python_lines

# Before anything is seen the power is 1, give or take this.
POWER_DEVIATION = python_lines.POWER_OF_PACE.value
# Four deviations from what is thought before: what seems to change by a higher power of the pace changes by something else.
LARGEST_POWER = 1 + 4 * POWER_DEVIATION
# What is fitted: a line, and the power.
FITTED = 3


@dataclass(frozen=True, slots=True)
class WorkPace:
    """How long the training's own work takes, per step, and whether it surely takes ever longer itself."""

    work_ns: Floats
    slows: bool

    def evened(self, part_ns: Floats) -> Floats:
        """A part's time per step at the usual pace."""
        beside = block_medians(self.work_ns)
        return part_ns / (beside / float(np.median(beside))) ** self.power_of(part_ns)

    def power_of(self, part_ns: Floats) -> float:
        """By what power of this pace the part's time changes, beside what changes steadily over the run."""
        if block_levels(part_ns).min() <= 0:
            return 1.0
        # Noise in a pace looks like a power under 1: of every other step is seen what of the steps between is explained.
        seen, other = (_around_a_line(np.log(block_levels(half))) for half in (self.work_ns[::2], self.work_ns[1::2]))
        beyond = _around_a_line(np.log(block_levels(part_ns)) - np.log(block_levels(self.work_ns)))
        unsure = float(np.var(beyond, ddof=FITTED)) / POWER_DEVIATION**2
        weight = max(float(seen @ other), 0.0) + unsure
        return min(max(1.0 + float(beyond @ (seen + other)) / 2 / weight, 0.0), LARGEST_POWER) if weight else 1.0


def pace_of(work_ns: Floats | None) -> WorkPace | None:
    """The pace of the training's own work, nanoseconds per step; None where it is too little to tell."""
    if work_ns is None or len(work_ns) < BLOCKS * STEPS_PER_BLOCK:
        return None
    halves = (work_ns[::2], work_ns[1::2])
    if any(block_levels(half).min() <= 0 for half in halves):
        return None
    trend = find_trend(block_medians(work_ns))
    return WorkPace(work_ns, slows=trend is not None and trend.growth_low > 0)


def _around_a_line(levels: Floats) -> Floats:
    at = np.arange(len(levels))
    return np.asarray(levels - np.polyval(np.polyfit(at, levels, 1), at))
