"""Verdicts over several levers at once: Holm's procedure on both ends of the intervals, the control, and when to stop. Pure.

Each lever is tested twice: against a gain of no worth (its low end) and against the gain that was predicted (its high end). The levers'
chances are put in order for each kind of test, and the k-th smallest of m is held against tail / (m - k + 1), up to the first that fails;
that one's level is also the level of all after it (S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
of Statistics 6, 1979). An end of an interval at the level that its test was held against says the same as the test. So over all levers
of an experiment the chance that any verdict is false is at most 5 %: 2.5 % for "proved", 2.5 % for "refuted". It is not promised that all
intervals hold at once; intervals that do are wider and say less (K. Strassburger and F. Bretz, Statistics in Medicine 27, 2008).

With fewer than MIN_ROUNDS rounds nothing is refuted, and proved is only what is clear: the level is what the spending function of O'Brien
and Fleming has given out by then (K. Lan and D. DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 1983): 0.15 %
with half of the rounds. An experiment is judged once, at an end that no gain has chosen, so no look costs anything: the level
is as strict because so few rounds tell little of how they are distributed (`benchmarks/coverage_few.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Protocol

from slowstep.prove.stats.design import AS_IS, CONTROL, FEWEST_STARTS, MIN_ROUNDS
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.intervals import FEWEST_ROUNDS, Interval
from slowstep.prove.stats.verdicts import GainVerdict

# A gain of 3 % is the least that is worth a change, and the least that the diagnosis calls one (docs/definitions.md, "Verdicts").
WORTH: Final = 1.03
CONTROL_LEVEL: Final = 0.99
# Of each end of the 95 % intervals.
TAIL: Final = 0.025


class RatioFigures(Protocol):
    """What a verdict needs to know of the logarithm of a ratio (`intervals.LogRatio`)."""

    @property
    def factor(self) -> float:
        """The ratio itself."""

    def low(self, tail: float) -> float:
        """The factor that the true one is under with a chance of no more than `tail`."""

    def high(self, tail: float) -> float:
        """The factor that the true one is over with a chance of no more than `tail`."""

    def chance_over(self, factor: float) -> float:
        """The chance to measure so much, or more, if `factor` were true."""

    def chance_under(self, factor: float) -> float:
        """The chance to measure so little, or less, if `factor` were true."""


class ArmFigures(Protocol):
    """What a verdict needs to know of an arm."""

    @property
    def log_ratio(self) -> RatioFigures:
        """Of its throughput by that as it is."""

    @property
    def rounds(self) -> int:
        """From so many rounds, or pairs of runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What is known of one lever: its verdict, the interval that it was drawn from, and from which factor on a gain would be seen, infinity
    where that is not known: in few rounds. `may_refute`: there are enough of them to say that it gains too little.
    """

    verdict: GainVerdict
    interval: Interval
    seen_from: float
    may_refute: bool = True


def judge_all(
    estimates: Mapping[int, ArmFigures], predicted_lows: Mapping[int, float] | None = None, fewest: Mapping[int, int] | None = None
) -> dict[int, Judgement]:
    """The verdict on every arm with levers. `predicted_lows` are the low ends of predicted gains, for the arms that have one; `fewest` are
    the rounds without which there is no verdict, where they are not MIN_ROUNDS.
    """
    lows, least = predicted_lows or {}, fewest or {}
    spent = {arm: level_spent(e.rounds, least.get(arm, MIN_ROUNDS)) for arm, e in estimates.items()}
    return {
        arm: _judged(interval, estimates[arm].rounds, lows.get(arm), least.get(arm, MIN_ROUNDS))
        for arm, interval in holm(estimates, predicted_lows=lows, spent=spent).items()
    }


def level_spent(rounds: int, fewest: int = MIN_ROUNDS) -> float:
    """The share of the level of its low end that a lever is held against, by its rounds: 1 from the fewest on that a verdict takes."""
    if rounds >= fewest:
        return 1.0
    normal = NormalDist()
    return 2 * normal.cdf(normal.inv_cdf(TAIL / 2) / math.sqrt(rounds / fewest)) / TAIL


def holm(
    estimates: Mapping[int, ArmFigures],
    *,
    predicted_lows: Mapping[int, float] | None = None,
    spent: Mapping[int, float] | None = None,
) -> dict[int, Interval]:
    """The adjusted interval of every arm with levers: each end at the level that Holm's procedure holds it to. The control is no claim.
    Of the level of its low end an arm has the share in `spent`: its chance counts as so much larger.
    """
    ratios = {arm: e.log_ratio for arm, e in estimates.items() if arm not in (AS_IS, CONTROL)}
    refuting = {arm: refuted_under((predicted_lows or {}).get(arm)) for arm in ratios}
    shares = dict.fromkeys(ratios, 1.0) | {arm: share for arm, share in (spent or {}).items() if arm in ratios}
    lower = _tails({arm: r.chance_over(WORTH) / shares[arm] for arm, r in ratios.items()}, TAIL)
    upper = _tails({arm: r.chance_under(refuting[arm]) for arm, r in ratios.items()}, TAIL)
    return {arm: Interval(value=r.factor, low=r.low(lower[arm] * shares[arm]), high=r.high(upper[arm])) for arm, r in ratios.items()}


def judge(interval: Interval, *, rounds: int, predicted_low: float | None = None, fewest: int = MIN_ROUNDS) -> GainVerdict:
    """The verdict that an adjusted interval gives. A gain that is proved but smaller than predicted is proved; few rounds refute
    nothing.
    """
    if rounds < FEWEST_ROUNDS:
        return GainVerdict.OPEN
    if interval.low > WORTH:
        return GainVerdict.PROVED
    return GainVerdict.REFUTED if rounds >= fewest and interval.high < refuted_under(predicted_low) else GainVerdict.OPEN


def refuted_under(predicted_low: float | None) -> float:
    """The factor that a gain must be seen to be under for its prediction to be refuted."""
    return max(WORTH, predicted_low or WORTH)


def seen_from(interval: Interval) -> float:
    """The smallest factor that would have been proved with an interval as wide as this: gains under it cannot be told from none."""
    return WORTH * interval.value / interval.low if interval.low > 0 else float("inf")


def is_trustworthy(control: Estimate) -> bool:
    """Whether an arm without levers gained nothing: the 99 % interval of its gain holds 1."""
    interval = control.log_ratio.interval(CONTROL_LEVEL)
    return interval.low <= 1.0 <= interval.high


def is_precise(estimates: Mapping[int, Estimate], precision: float, *, min_rounds: int = MIN_ROUNDS) -> bool:
    """Whether every lever's interval is narrow enough, from enough rounds. Looks at widths only: a stop that looked at gains would choose
    them. The control needs its rounds, but tells no gain: how well it is known is not waited for. Of two starts of the script nobody knows
    yet how much starts differ.
    """
    enough = all(e.rounds >= min_rounds and (e.starts == 1 or e.starts >= FEWEST_STARTS) for e in estimates.values())
    widths = [e.gain.precision for arm, e in estimates.items() if arm != CONTROL]
    return enough and bool(widths) and max(widths) <= precision


def _judged(interval: Interval, rounds: int, predicted_low: float | None, fewest: int) -> Judgement:
    return Judgement(
        verdict=judge(interval, rounds=rounds, predicted_low=predicted_low, fewest=fewest),
        interval=interval,
        seen_from=seen_from(interval) if rounds >= fewest else float("inf"),
        may_refute=rounds >= fewest,
    )


def _tails(chances: Mapping[int, float], tail: float) -> dict[int, float]:
    """The level that Holm's procedure holds each chance against."""
    found: dict[int, float] = {}
    left, held = len(chances), True
    level = tail / max(left, 1)
    for arm in sorted(chances, key=lambda arm: chances[arm]):
        if held:
            level = tail / left
            held = chances[arm] <= level
        found[arm] = level
        left -= 1
    return found
