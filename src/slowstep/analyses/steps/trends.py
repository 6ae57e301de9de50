"""Trends: whether a quantity per step grows over the run, by how much, and how sure that is.

The run is cut into blocks of steps; the slope through the blocks' medians is that of Theil and Sen (the median of all slopes between two
blocks), which neither rare slow steps nor the tails of their lengths move. Its interval is that of a least-squares slope through the same
residuals, widened by their autocorrelation as an AR(1) series has it, corrected for its bias in short ones.

A shared machine's pace is no such series: it stays for seconds, and jumps. Where a quantity grows by far more than that, from third to
third of the run, its growth is certain too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import python_lines

BLOCKS = 24
STEPS_PER_BLOCK = 4
# 99.9 % of Student's t with 22 degrees of freedom, one-sided. Simulated in tests/unit/analyses/steps/test_trends.py: without a trend, at
# most 1 % of series whose fluctuations last up to a twentieth of the run get a growth that is surely over a tenth of the step.
DEVIATIONS = 3.5
# 95 %: enough where something else says already that it grows.
LIKELY_DEVIATIONS = 1.72
# What grows steadily grows in both halves; a jump (another phase of the training, a neighbour on the machine) is no trend.
SHARE_OF_EACH_HALF = 0.25
LARGEST_CORRELATION = 0.9
# One function's work may take so many times as long for seconds, the training's own work beside it no longer than ever.
LARGEST_JUMP = python_lines.PASSING_JUMP.value
# Of steady growth each of two steps is a half; of a jump one is nothing.
SHARE_OF_EACH_THIRD = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """A line through a quantity per step: its values at the first and the last step, and the least that it grows between them."""

    first: float
    last: float
    growth_low: float
    growth_likely: float  # the least where it is known to grow, if not by how much

    @property
    def growth(self) -> float:
        """From the first step to the last."""
        return self.last - self.first


def find_trend(per_step: Floats) -> Trend | None:
    """The trend of a quantity per step; None with fewer than BLOCKS blocks of steps."""
    if len(per_step) < BLOCKS * STEPS_PER_BLOCK:
        return None
    levels = block_levels(per_step)
    slopes = _slopes(levels)
    slope = float(np.median(slopes))
    at = np.arange(BLOCKS) - (BLOCKS - 1) / 2
    middle = float(np.median(levels - slope * at))
    residual = levels - middle - slope * at
    error = math.sqrt(float((residual**2).sum()) / (BLOCKS - 2) * inflation(residual) / float((at**2).sum()))
    low = slope - DEVIATIONS * error
    halves = [float(np.median(_slopes(half))) for half in np.array_split(levels, 2)]
    if min(halves) < SHARE_OF_EACH_HALF * slope:
        low = min(low, 0.0)
    growth_low = max(low * BLOCKS, min(_beyond_a_jump(per_step), slope * BLOCKS))
    return Trend(
        first=middle - slope * BLOCKS / 2,
        last=middle + slope * BLOCKS / 2,
        growth_low=growth_low,
        growth_likely=max(growth_low, (slope - LIKELY_DEVIATIONS * error) * BLOCKS),
    )


def _beyond_a_jump(per_step: Floats) -> float:
    """Growth from the first third of the run to the last that the largest jump does not explain; 0 where the middle is not between."""
    first, middle, last = (float(np.median(third)) for third in np.array_split(per_step, 3))
    return max(last / LARGEST_JUMP - first, 0.0) if is_steady(first, middle, last) else 0.0


def is_steady(first: float, middle: float, last: float) -> bool:
    """Whether what changes from the first third of the run to the last does so steadily, and not by a jump."""
    return min(middle - first, last - middle) >= SHARE_OF_EACH_THIRD * (last - first)


def block_medians(per_step: Floats) -> Floats:
    """For each step, the median of the block of steps that it lies in."""
    return np.repeat(block_levels(per_step), [len(block) for block in np.array_split(per_step, BLOCKS)])


def block_levels(per_step: Floats) -> Floats:
    """The medians of the blocks; at least BLOCKS steps."""
    each, longer = divmod(len(per_step), BLOCKS)
    # All blocks of one length at once: the first ones hold a step more, where steps are left over.
    in_longer = (each + 1) * longer
    parts = (per_step[:in_longer].reshape(longer, each + 1), per_step[in_longer:].reshape(BLOCKS - longer, each))
    return np.concatenate([np.median(part, axis=1) for part in parts if len(part)])


def _slopes(levels: Floats) -> Floats:
    """The slopes between any two blocks, sorted."""
    i, j = np.triu_indices(len(levels), 1)
    return np.sort((levels[j] - levels[i]) / (j - i))


def inflation(residual: Floats) -> float:
    """How many times larger the variance is because neighbours resemble each other."""
    spread = float((residual**2).sum())
    if not spread:
        return 1.0
    r = float((residual[1:] * residual[:-1]).sum()) / spread
    # Estimated from so few values, and after a line was taken out, a correlation is too small (Kendall 1954, Marriott and Pope 1954).
    r = min(max(r + (1 + 4 * r) / len(residual) + 2 / len(residual), 0.0), LARGEST_CORRELATION)
    return (1 + r) / (1 - r)
