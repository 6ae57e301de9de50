"""Intervals of a log ratio of sums over rounds by other methods than slowstep's own, to be compared with it.

Each takes sums of shape (rounds, 4) - ns as it is, samples as it is, ns of the arm, samples of the arm - and gives the ends of the 95 %
interval.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.intervals import bootstrap_pivots, log_ratio, resamples, student_pivots

Floats = NDArray[np.float64]
Ends = tuple[float, float]
TAIL = 0.025
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
NORMAL = NormalDist()


def own(sums: Floats) -> Ends:
    return by_pivots(sums, log_ratio(sums).pivots)


def student(sums: Floats) -> Ends:
    return by_pivots(sums, student_pivots(len(sums) - 1))


def bootstrap_t(sums: Floats) -> Ends:
    """As it is in the books, without slowstep's floor under a sample's standard error."""
    return by_pivots(sums, bootstrap_pivots(sums / sums.mean(axis=0) - 1, least_error=0.0))


def by_pivots(sums: Floats, pivots: Floats) -> Ends:
    ratio = log_ratio(sums)
    low, high = np.quantile(pivots, [TAIL, 1 - TAIL])
    return ratio.value - high * ratio.error, ratio.value - low * ratio.error


def percentile(sums: Floats) -> Ends:
    low, high = np.quantile(resampled(sums), [TAIL, 1 - TAIL])
    return float(low), float(high)


def bca(sums: Floats) -> Ends:
    """Bias-corrected and accelerated (Efron 1987)."""
    drawn, value = resampled(sums), log_ratio(sums).value
    bias = NORMAL.inv_cdf(float(np.clip((drawn < value).mean(), 0.001, 0.999)))
    pull = (sums / sums.mean(axis=0) - 1) @ SIGNS
    skew = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
    shifted = [bias + NORMAL.inv_cdf(tail) for tail in (TAIL, 1 - TAIL)]
    low, high = np.quantile(drawn, [NORMAL.cdf(bias + z / (1 - skew * z)) for z in shifted])
    return float(low), float(high)


def resampled(sums: Floats) -> Floats:
    return np.asarray(np.log(resamples(len(sums)) @ sums) @ SIGNS)


METHODS: dict[str, Callable[[Floats], Ends]] = {
    "percentile": percentile,
    "BCa": bca,
    "bootstrap-t": bootstrap_t,
    "Student": student,
    "slowstep": own,
}
