"""How sure a ratio of throughputs is, from the sums of a few rounds. Pure.

The interval of a log ratio is its value, and so many standard errors to both sides; the standard error is by linearisation (of a ratio of
sums: W. Cochran, Sampling Techniques, 1977, ch. 6). How many is the larger of two answers:

* Student's t. Right where what makes some rounds slow has nothing to do with the arms: then, by the random order, it hits either arm alike.
* The bootstrap-t over rounds (B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, ch. 10). Right where the arms
  differ in it: a lever that takes away what is rare and dear leaves a ratio whose errors are skewed.

Either alone fails in the other's case, and the percentile and BCa bootstrap fail in both with 8 to 30 rounds: `benchmarks/coverage.py`.

Rounds of several starts of a script are pooled. What differs from start to start is a component of the variance of its own: where starts
differ more than their rounds do, by an analysis of variance, it counts, and of two starts in any case (`between_starts.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.between_starts import between_starts
from slowstep.prove.stats.rounds import Floats, Ints

# Of fewer rounds there are so few different samples that their tails say nothing.
FEWEST_ROUNDS: Final = 4
RESAMPLES: Final = 4999
SEED: Final = 20200823
# Of more rounds neighbours are taken together: that costs nothing and saves time beside a running training.
MOST_GROUPS: Final = 200
# Of the columns ns as it is, samples as it is, ns of the arm, samples of the arm, in the logarithm of the ratio.
_SIGNS: Final = np.array([1.0, -1.0, -1.0, 1.0])
# A sample of rounds that happen to be alike says nothing of how much rounds differ: its standard error counts as no less than this share of
# that of all rounds. From 8 rounds on it costs no coverage; where single steps stall it halves the width (`benchmarks/coverage.py`).
LEAST_ERROR: Final = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A factor of throughput with the ends of its interval: 1.8 means 1.8 times the samples in the same time."""

    value: float
    low: float
    high: float

    @property
    def precision(self) -> float:
        """Half the width as a share: 0.05 where the ends are their middle times 1.05 and by 1.05; infinite where an end is unknown."""
        return math.sqrt(self.high / self.low) - 1 if self.low > 0 else math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRatio:
    """The logarithm of a ratio of throughputs, its standard error, and by how many standard errors such ratios are off, sorted."""

    value: float
    error: float
    pivots: Floats

    @property
    def factor(self) -> float:
        """The ratio itself."""
        return _factor(self.value)

    def interval(self, level: float = 0.95) -> Interval:
        """The two-sided interval, with equal chances on both sides."""
        tail = (1 - level) / 2
        return Interval(value=self.factor, low=self.low(tail), high=self.high(tail))

    def low(self, tail: float) -> float:
        """The factor that the true one is under with a chance of no more than `tail`; 0 where so small a chance cannot be told."""
        rank = self._rank(tail)
        return _factor(self.value - float(self.pivots[-rank]) * self.error) if rank else 0.0

    def high(self, tail: float) -> float:
        """The factor that the true one is over with a chance of no more than `tail`; infinite where so small a chance cannot be told."""
        rank = self._rank(tail)
        return _factor(self.value - float(self.pivots[rank - 1]) * self.error) if rank else math.inf

    def chance_over(self, factor: float) -> float:
        """The chance to measure so much, or more, if `factor` were true. At most `tail` just where `low(tail)` is over `factor`."""
        return self._chance(self.pivots >= self._off(factor))

    def chance_under(self, factor: float) -> float:
        """The chance to measure so little, or less, if `factor` were true. At most `tail` just where `high(tail)` is under `factor`."""
        return self._chance(self.pivots <= self._off(factor))

    def _rank(self, tail: float) -> int:
        """How many of the pivots may lie outside, and one more: the small term is for tails that are whole but for rounding."""
        return int(tail * (len(self.pivots) + 1) + 1e-9)

    def _chance(self, as_far: NDArray[np.bool_]) -> float:
        return (1 + int(np.count_nonzero(as_far))) / (len(self.pivots) + 1)

    def _off(self, factor: float) -> float:
        off = self.value - math.log(factor)
        return off / self.error if self.error else math.copysign(math.inf, off) if off else 0.0


def log_ratio(sums: Floats, *, start: Ints | None = None, rough: bool = False) -> LogRatio:
    """Of sums by round, in the columns ns as it is, samples as it is, ns of the arm, samples of the arm: all above 0.

    `start` is which start of the script each round is of, shape (rounds,); None: all are of one. `rough` is by Student's t alone: a tenth
    of the work, and intervals that lie within the whole ones. Raises ValueError for fewer than FEWEST_ROUNDS rounds.
    """
    if len(sums) < FEWEST_ROUNDS:
        raise ValueError(f"{len(sums)} rounds: an interval needs at least {FEWEST_ROUNDS}")
    ratio = _of_rounds(sums, rough=rough)
    apart = None if start is None else between_starts((sums / sums.mean(axis=0) - 1) @ _SIGNS, start)
    if apart is None:
        return ratio
    of_starts = math.sqrt(apart.variance)
    error = max(ratio.error, of_starts, math.sqrt(apart.least))
    # Of each the standard errors that it has itself: the interval is the longer of both, on each side.
    own = student_pivots(apart.freedom) * (of_starts / error if error else 0.0)
    return LogRatio(value=ratio.value, error=error, pivots=_farther(ratio.pivots, own))


def _of_rounds(sums: Floats, *, rough: bool) -> LogRatio:
    """As if what makes rounds differ were the same in all of them."""
    rows = _grouped(sums)
    # In an order of their own, so that the same rounds give the same interval in whatever order they were measured.
    rows = rows[np.lexsort(rows.T)]
    mean = rows.mean(axis=0)
    relative = rows / mean - 1
    pivots = student_pivots(len(rows) - 1)
    return LogRatio(
        value=float(_SIGNS @ np.log(mean)),
        error=math.sqrt(_variance(relative)),
        pivots=pivots if rough else _farther(pivots, bootstrap_pivots(relative)),
    )


def _variance(relative: Floats) -> float:
    """Of the log ratio, from rounds as shares of their mean, less 1."""
    n = len(relative)
    return float(np.square(relative @ _SIGNS).sum()) / (n * (n - 1))


def _grouped(rows: Floats) -> Floats:
    per_group = -(-len(rows) // MOST_GROUPS)
    return np.add.reduceat(rows, np.arange(0, len(rows), per_group), axis=0)


def bootstrap_pivots(relative: Floats, least_error: float = LEAST_ERROR) -> Floats:
    """By how many standard errors the log ratios of samples of the rounds are off, sorted. Rounds as shares of their mean, less 1."""
    n = len(relative)
    weights = resamples(n)
    mean = weights @ relative
    squares = (weights @ (relative[:, :, None] * relative[:, None, :]).reshape(n, -1)).reshape(-1, 4, 4)
    # The delta method: d log(mean) = d mean / mean. The variance of a sample's mean is that of its rounds / (n - 1).
    slope = _SIGNS / (1 + mean)
    variance = np.einsum("bk,bkl,bl->b", slope, squares - mean[:, :, None] * mean[:, None, :], slope) / (n - 1)
    least = max(least_error**2 * _variance(relative), np.finfo(np.float64).tiny)
    return np.sort(np.log1p(mean) @ _SIGNS / np.sqrt(np.maximum(variance, least)))


@lru_cache(maxsize=4)
def resamples(n: int) -> Floats:
    """The share of each of n rounds in each sample. Shape (RESAMPLES, n)."""
    drawn = np.random.default_rng(SEED).integers(0, n, size=(RESAMPLES, n)) + n * np.arange(RESAMPLES)[:, None]
    return np.bincount(drawn.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n) / n


@lru_cache(maxsize=4)
def student_pivots(freedom: int) -> Floats:
    """Student's t with f degrees of freedom, as RESAMPLES values of equal chance.

    With t = sqrt(f) tan(angle) the density of the angle is cos(angle)^(f - 1), smooth and on a finite range.
    """
    angle = np.linspace(-math.pi / 2, math.pi / 2, 40_001)
    density = np.cos(angle) ** (freedom - 1)
    chance = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    wanted = np.arange(1, RESAMPLES + 1) / (RESAMPLES + 1)
    return math.sqrt(freedom) * np.tan(np.interp(wanted, chance / chance[-1], angle))


def _farther(one: Floats, other: Floats) -> Floats:
    """Of two sorted distributions the one that reaches farther, on each side and at each chance."""
    middle = len(one) // 2
    return np.concatenate((np.minimum(one, other)[:middle], np.maximum(one, other)[middle:]))


def _factor(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf
