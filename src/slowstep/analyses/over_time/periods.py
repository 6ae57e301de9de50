"""Periods found in the lengths of steps alone: something slow that comes back every so many steps, whatever it is.

A step is a candidate of period p when it is the longest of the p steps around it. Something that recurs every p steps is that in
nearly all periods, at always the same phase; without it, any step of a stationary series - whatever its tails, and however its neighbours
resemble it - is the longest of its window about once in p. So the hits at one phase are binomial, and only ranks are used: one step
that takes a thousand times as long counts like one that takes a hundredth more.

Ranks alone would let a little more in every 40th step hide much more in every 200th: each 40th is the longest of its window either way.
So the steps of a period are searched for one in turn, and the rarer is taken out first, down to what the others of that period take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.steps.chance import SEED
from slowstep.analyses.steps.steps import Floats
from slowstep.timeline.intervals import Ints

# Chance that a training without any period gets one, all periods and phases that are tried together (Bonferroni). Simulated in
# tests/unit/analyses/over_time/test_periods.py with heavy tails and autocorrelation: under it.
FALSE_ALARMS = 0.01
# Of its periods, something that recurs is the longest step in at least so many; others' events and noise may hide it in the rest.
HIT_SHARE = 0.70
FEWEST_PERIODS = 6
LONGEST_PERIOD = 1000
# More steps tell nothing new, and take longer to search.
MOST_STEPS = 10_000
MOST_FOUND = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Period:
    """Something slow that comes back: its period and phase in steps, and in which steps of the series it was seen.

    `others` are the steps without it that it was told from: all of them, or those of a shorter period that has this one among its steps.
    """

    steps: int
    phase: int
    at: Ints
    others: Ints
    ns: Floats  # of each, above the median of the others

    @property
    def excess_ns(self) -> float:
        """Mean over those steps, above the median of the others."""
        return float(self.ns.mean())


@dataclass(frozen=True, slots=True)
class _Recurring:
    """Which steps recur, and among which."""

    steps: int
    phase: int
    among: Ints

    @property
    def at(self) -> Ints:
        return np.asarray(self.among[self.among % self.steps == self.phase])

    @property
    def others(self) -> Ints:
        return np.asarray(self.among[self.among % self.steps != self.phase])


def find_periods(duration_ns: Floats) -> tuple[Period, ...]:
    """The periods of a series of step lengths, the most certain first, but behind its multiples; none where nothing recurs."""
    series = np.asarray(duration_ns[:MOST_STEPS], dtype=np.float64).copy()
    found: list[Period] = []
    rng = np.random.default_rng(SEED)
    for _ in range(MOST_FOUND):
        best = _recurring(series, rng)
        if best is None:
            break
        usual = float(np.median(series[best.others]))
        longer = series[best.at] - usual
        if longer.mean() > 0:
            ns = np.clip(longer, 0, None)
            found.append(Period(steps=best.steps, phase=best.phase, at=best.at, others=best.others, ns=ns))
        # What is known is taken out, so that it hides nothing else.
        series[best.at] = np.minimum(series[best.at], usual)
    return tuple(found)


def _recurring(series: Floats, rng: np.random.Generator) -> _Recurring | None:
    """What recurs most certainly; where something recurs among its steps, that in place of it."""
    tried = _tests(len(series))
    if not tried:
        return None
    # Equal ones get their ranks by lot: else a clock's coarse ticks would make many the longest.
    best = _most_certain(np.lexsort((rng.random(len(series)), series)).argsort())
    if best is None or best[0] > math.log(FALSE_ALARMS / tried):
        return None
    found = _Recurring(best[1], best[2], np.arange(len(series)))
    rarer = _recurring(series[found.at], rng)
    if rarer is None:
        return found
    return _Recurring(found.steps * rarer.steps, found.phase + found.steps * rarer.phase, found.at[rarer.among])


def _tests(n: int) -> int:
    longest = min(n // FEWEST_PERIODS, LONGEST_PERIOD)
    return sum(range(2, longest + 1))


def _most_certain(series: Ints) -> tuple[float, int, int] | None:
    """Logarithm of the chance of so many hits, period and phase of the least likely one; None without any."""
    best: tuple[float, int, int] | None = None
    maxima = _Maxima(series)
    for period in range(2, min(len(series) // FEWEST_PERIODS, LONGEST_PERIOD) + 1):
        longest = series >= maxima.around(period)
        windows = len(series) // period
        hits = longest[: windows * period].reshape(windows, period).sum(axis=0)
        phase = int(hits.argmax())
        if hits[phase] < HIT_SHARE * windows or not _all_along(longest[phase : windows * period : period]):
            continue
        # Where the series drifts, every step is the longest of a short window that ends with it: then other phases are hit as often.
        others = (int(hits.sum()) - int(hits[phase])) / ((period - 1) * windows)
        chance = log_binomial_tail(int(hits[phase]), windows, max(1 / period, others))
        if best is None or chance < best[0]:
            best = chance, period, phase
    return best


def _all_along(hits: NDArray[np.bool_]) -> bool:
    """Whether both halves of the series have it: what slips out of phase is no period."""
    half = len(hits) // 2
    return bool(min(hits[:half].mean(), hits[half:].mean()) >= HIT_SHARE - 0.15)


class _Maxima:
    """Largest value in windows of any length, from those of the lengths 1, 2, 4, ..."""

    def __init__(self, series: Ints) -> None:
        self._n = len(series)
        self._levels = [series]
        while 2 ** len(self._levels) <= self._n:
            before, half = self._levels[-1], 2 ** (len(self._levels) - 1)
            self._levels.append(np.maximum(before[:-half], before[half:]))

    def around(self, width: int) -> Ints:
        """For each value, the largest of the `width` values around it (fewer at the ends). Shape of the series."""
        level = width.bit_length() - 1
        table, size = self._levels[level], 2**level
        first = np.clip(np.arange(self._n) - width // 2, 0, self._n - width)
        return np.asarray(np.maximum(table[first], table[first + width - size]))


def log_binomial_tail(hits: int, of: int, chance: float) -> float:
    """Logarithm of the chance of at least so many hits: exact, summed from the largest term on."""
    k = np.arange(hits, of + 1)
    if chance >= 1.0:
        return 0.0
    log_terms = _log_choose(of, k) + k * math.log(chance) + (of - k) * math.log1p(-chance)
    top = float(log_terms.max())
    return top + math.log(float(np.exp(log_terms - top).sum()))


def _log_choose(n: int, k: Ints) -> Floats:
    return np.array([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k.tolist()])
