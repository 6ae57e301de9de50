"""What differs from start to start of a script, beside what differs from round to round of each. Pure.

An analysis of variance with one random factor (H. Scheffe, The Analysis of Variance, 1959, ch. 7): with n rounds in k starts the mean
squares between and within starts tell the component that is the starts' own, and F. Satterthwaite (An approximate distribution of estimates
of variance components, Biometrics Bulletin 2, 1946) how many degrees of freedom the variance of the mean has.

That two starts differ no more than their rounds do is chance too often for that: of two the component always counts, with the one degree
of freedom that it has, and starts never as closer to each other than starts of scripts were measured to be. With both a gain of no worth
is proved in no more than the 2.5 % that are promised, however much starts differ (`benchmarks/coverage_restarts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowstep.calibration.between_runs import BETWEEN_STARTS
from slowstep.prove.stats.design import FEWEST_STARTS


@dataclass(frozen=True, kw_only=True, slots=True)
class BetweenStarts:
    """The variance of the mean over starts, the starts' own component in it, and its degrees of freedom. `least` is what that variance is
    at the least, as well known as that of the rounds: of two starts by what others differed, else 0.
    """

    variance: float
    freedom: int
    least: float = 0.0


def between_starts(of_rounds: NDArray[np.float64], start: NDArray[np.int64]) -> BetweenStarts | None:
    """Of what each round is off, shape (rounds,), and the start that it is of.

    None where there is one start, or no start with a second round, and where three or more differ no more than rounds do.
    """
    _, at, rounds = np.unique(start, return_inverse=True, return_counts=True)
    n, k = len(of_rounds), len(rounds)
    if k < 2 or n == k:
        return None
    off = of_rounds - of_rounds.mean()
    means = np.bincount(at, weights=off) / rounds
    within = float(np.square(off - means[at]).sum()) / (n - k)
    between = float((rounds * np.square(means)).sum()) / (k - 1)
    if k >= FEWEST_STARTS and between <= within:
        return None
    # Mean squares between starts hold their own component as often as an average start has rounds.
    squares = float(np.square(rounds).sum())
    share = squares / n**2 * (k - 1) / (n - squares / n)
    if k < FEWEST_STARTS:
        return BetweenStarts(variance=share * between, freedom=1, least=BETWEEN_STARTS.value**2 * squares / n**2 + within / n)
    parts = share * between, (1 / n - share) * within
    variance = sum(parts)
    freedom = variance**2 / (parts[0] ** 2 / (k - 1) + parts[1] ** 2 / (n - k))
    return BetweenStarts(variance=variance, freedom=max(int(freedom), 1))
