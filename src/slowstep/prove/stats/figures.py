"""A ratio of two sums with its 95 % interval, by the studentized bootstrap over blocks. Pure.

Blocks follow each other in time and are long enough to be nearly independent (Carlstein 1986: blocks that do not overlap); studentized,
since with a few blocks the percentile bootstrap holds too little (Hall 1992, ch. 3). Two or three blocks have nothing to be drawn from:
where they are taken at all their interval is Student's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slowstep.prove.stats.intervals import student_pivots

Floats = NDArray[np.float64]

RESAMPLES: Final = 2000
SEED: Final = 20180717
LEVEL: Final = 0.95
# Fewer blocks cannot be resampled.
LEAST_BLOCKS: Final = 4
# Of a single one nobody knows how far it scatters.
FEWEST_BLOCKS: Final = 2
MOST_BLOCKS: Final = 40
# Eighths of a run differ in pace about as much as runs do (`benchmarks/pace.py`).
MOST_PARTS: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A value with the ends of its 95 % interval. `draws` are as likely values of it, from which those of other figures are made.

    `pace` is by how much it differed between parts of its own time (standard deviation of the logarithm); 0 of too few blocks to tell.
    """

    value: float
    draws: Floats
    pace: float = 0.0

    @property
    def low(self) -> float:
        """The lower end."""
        return float(np.quantile(self.draws, (1 - LEVEL) / 2))

    @property
    def high(self) -> float:
        """The upper end."""
        return float(np.quantile(self.draws, (1 + LEVEL) / 2))


def ratio(above: ArrayLike, below: ArrayLike, *, least: int = LEAST_BLOCKS) -> Figure | None:
    """sum(above) / sum(below), both given by block; None for fewer than `least` blocks with anything below."""
    a, b = _each_over_something(np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64))
    count = len(a)
    if count < max(least, 1):
        return None
    value, error = _with_error(a[None, :], b[None, :])
    if count < LEAST_BLOCKS:
        draws = float(value[0]) + student_pivots(count - 1) * float(error[0])
        return Figure(value=float(value[0]), draws=draws if a.min() < 0 else np.maximum(draws, 0.0))
    drawn = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    values, errors = _with_error(a[drawn], b[drawn])
    # Resamples of the same block over and over have no error to be measured by.
    pivots = (values - value)[errors > 0] / errors[errors > 0]
    draws = float(value[0]) - (pivots if len(pivots) else np.zeros(1)) * float(error[0])
    return Figure(value=float(value[0]), draws=draws if a.min() < 0 else np.maximum(draws, 0.0), pace=_pace(a, b))


def _pace(a: Floats, b: Floats) -> float:
    """The spread between parts of the time, each of at least two blocks."""
    parts = min(MOST_PARTS, len(a) // 2)
    starts = np.arange(parts) * len(a) // parts
    each = np.add.reduceat(a, starts) / np.add.reduceat(b, starts)
    return float(np.std(np.log(each), ddof=1)) if each.min() > 0 else 0.0


def _each_over_something(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Blocks with nothing below in one with the next that has some, those at the end with the last: what ends there took their time, too.

    Drawn by themselves they have no ratio, and make the others' scatter as if they were as many more.
    """
    ends = np.flatnonzero(b > 0)
    if not len(ends):
        return a[:0], b[:0]
    starts = np.concatenate(([0], ends[:-1] + 1))
    return np.add.reduceat(a, starts), np.add.reduceat(b, starts)


def _with_error(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Ratios of the sums of rows, and their standard errors by the delta method."""
    count, whole = a.shape[1], b.sum(axis=1)
    value = a.sum(axis=1) / whole
    off = (a - value[:, None] * b) / whole[:, None]
    return value, np.sqrt(count / (count - 1) * (off**2).sum(axis=1))


def combined(how: np.ufunc, one: Figure, other: Figure) -> Figure:
    """`how` of two independent figures, such as np.maximum or np.add."""
    # Shuffled: both were drawn in the same order.
    count = min(len(one.draws), len(other.draws))
    rng = np.random.default_rng(SEED)
    draws = how(rng.permutation(one.draws)[:count], rng.permutation(other.draws)[:count])
    return Figure(value=float(how(one.value, other.value)), draws=np.asarray(draws, dtype=np.float64))


def inverse(figure: Figure, scale: float = 1.0) -> Figure:
    """scale / figure."""
    tiny = figure.value * 1e-6
    return Figure(value=scale / figure.value, draws=scale / np.maximum(figure.draws, tiny), pace=figure.pace)


def blocks(rows: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Sums of neighbouring rows [.., batches, ..] whose second column has at least `least` in each; at most MOST_BLOCKS of them."""
    if not len(rows):
        return rows
    least = max(least, -(-int(rows[:, 1].sum()) // MOST_BLOCKS))
    number = np.cumsum(rows[:, 1]) - rows[:, 1]
    group = number // least
    _, where = np.unique(group, return_inverse=True)
    sums = np.zeros((int(where.max()) + 1, rows.shape[1]), dtype=np.int64)
    np.add.at(sums, where, rows)
    # What is left at the end is no whole block.
    if len(sums) > 1 and sums[-1, 1] < least:
        sums[-2] += sums[-1]
        sums = sums[:-1]
    return sums


def exactly(figure: Figure | None) -> Figure | None:
    """A figure as if its value were known for sure."""
    return None if figure is None else Figure(value=figure.value, draws=np.full(len(figure.draws), figure.value))


def scaled(figure: Figure, factor: float) -> Figure:
    """A figure times a number."""
    return Figure(value=figure.value * factor, draws=figure.draws * factor, pace=figure.pace)
