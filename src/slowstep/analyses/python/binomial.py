"""The 90 % interval of a share that is known by counting: of stacks, how many stand somewhere.

Exact (Clopper and Pearson, 1934): five of five say that the share is over a half, where an approximation by the normal distribution says
that it is one. Its bounds are quantiles of beta distributions, of which so many are drawn; the same counts give the same interval.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.steps.chance import SEED

# A quantile of so many is off by 0.015 of the distribution's standard deviation.
DRAWS = 20_000
TAIL_PERCENT = 5.0


def share_bounds(hits: int, of: int) -> tuple[float, float]:
    """The lowest and the highest share of which `hits` of so many `of` are no surprise: each is passed with a chance of 5 %."""
    draw = np.random.default_rng(SEED).beta
    low = float(np.percentile(draw(hits, of - hits + 1, DRAWS), TAIL_PERCENT)) if hits else 0.0
    high = float(np.percentile(draw(hits + 1, of - hits, DRAWS), 100 - TAIL_PERCENT)) if hits < of else 1.0
    return low, high
