from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from how_many import how_many
from slowstep.analyses.over_time.periods import FALSE_ALARMS, find_periods, log_binomial_tail
from slowstep.analyses.steps.steps import Floats

Noise = Callable[[np.random.Generator, int], Floats]
TRIES = how_many(150)


def _resembling(rng: np.random.Generator, shocks: Floats, by: float) -> Floats:
    series = np.zeros(len(shocks))
    for i in range(1, len(shocks)):
        series[i] = by * series[i - 1] + shocks[i]
    return series


HEALTHY: dict[str, Noise] = {
    "lognormal": lambda rng, n: np.exp(0.3 * rng.standard_normal(n)),
    "tails without a variance": lambda rng, n: 1 + rng.pareto(1.1, n),
    "neighbours alike": lambda rng, n: np.exp(0.2 * _resembling(rng, rng.standard_normal(n), 0.8)),
    "neighbours very much alike": lambda rng, n: np.exp(0.1 * _resembling(rng, rng.standard_normal(n), 0.98)),
    "neighbours alike, with tails": lambda rng, n: 10 + _resembling(rng, rng.standard_t(1.5, n), 0.8),
    "a long one, then a short one": lambda rng, n: np.exp(0.2 * _resembling(rng, rng.standard_normal(n), -0.5)),
    "rare slow steps": lambda rng, n: 1 + 0.05 * rng.standard_normal(n) + 20 * (rng.random(n) < 0.03),
    "bursts": lambda rng, n: 1 + 0.05 * rng.standard_normal(n) + 5 * (_resembling(rng, rng.standard_normal(n), 0.9) > 2.5),
    "a clock of coarse ticks": lambda rng, n: np.round(1 + 0.3 * rng.random(n), 1),
    "a drift": lambda rng, n: np.linspace(1, 2, n) + 1e-4 * rng.standard_normal(n),
}


@pytest.mark.parametrize("noise", HEALTHY)
@pytest.mark.parametrize("n", [60, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_training_without_a_period_gets_one_in_no_more_than_the_promised_share(noise, n):
    rng = np.random.default_rng(5)

    alarms = sum(bool(find_periods(HEALTHY[noise](rng, n))) for _ in range(TRIES))

    # So many among 150 happen by chance in under 5 % where the share is the promised one.
    assert log_binomial_tail(alarms, TRIES, FALSE_ALARMS) > np.log(0.05)


@pytest.mark.parametrize(("period", "phase", "excess"), [(2, 1, 1.0), (4, 0, 1.0), (10, 7, 2.0), (50, 49, 3.0)])
def test_what_recurs_is_found_with_its_period_phase_and_length(period, phase, excess):
    rng = np.random.default_rng(3)
    series = np.exp(0.2 * rng.standard_normal(400))
    series[phase::period] += excess

    found = find_periods(series)[0]

    assert (found.steps, found.phase) == (period, phase)
    assert found.excess_ns == pytest.approx(excess, rel=0.15)


def test_two_that_recur_are_both_found():
    series = 1 + 0.1 * np.random.default_rng(3).random(400)
    series[9::10] += 1
    series[24::50] += 5

    assert {(p.steps, p.phase) for p in find_periods(series)} == {(10, 9), (50, 24)}


def _epochs(rng: np.random.Generator, small: float, large: float, every: int, of: int = 40, n: int = 2800) -> Floats:
    """Steps of 2.5 with an epoch change of `small` in every step `of`, and `large` beside it in every `every`-th."""
    series = 2.5 + 0.1 * rng.standard_normal(n)
    series[::of] += small
    series[(every - of) :: every] += large
    return series


@pytest.mark.parametrize(("every", "of"), [(200, 40), (400, 40), (80, 40), (100, 10)])
@pytest.mark.parametrize("seed", range(2))
def test_what_comes_with_a_few_of_the_epoch_changes_has_a_period_of_its_own(every, of, seed):
    """Every step `of` is the longest of its window, whether the rarer one is in it or not: by ranks it seems to be all."""
    found = find_periods(_epochs(np.random.default_rng(seed), 0.5, 100, every, of))

    assert [(p.steps, p.phase) for p in found[:2]] == [(every, every - of), (of, 0)]
    assert [p.excess_ns for p in found[:2]] == pytest.approx([100, 0.5], rel=0.2)


def test_two_that_come_with_each_other_in_turn_are_all_found():
    series = _epochs(np.random.default_rng(1), 0.5, 10, 40, of=10, n=6000)
    series[30::400] += 100

    assert [(p.steps, p.phase) for p in find_periods(series)] == [(400, 30), (40, 30), (10, 0)]


@pytest.mark.parametrize("large", [0.0, pytest.param(0.5, marks=pytest.mark.nightly)])
def test_equal_ones_are_of_one_period(large):
    """Each takes 100, give or take 20, and so does what comes with every fifth of them, or hardly more."""
    rng, split, tries = np.random.default_rng(2), 0, how_many(60)
    for _ in range(tries):
        series = _epochs(rng, 100, large, 100, of=20, n=2000)
        series[::20] += 20 * rng.standard_normal(100)
        split += len(find_periods(series)) > 1

    # So many of them happen by chance in under 5 % where the share is the promised one.
    assert log_binomial_tail(split, tries, FALSE_ALARMS) > np.log(0.05)


@pytest.mark.parametrize("of", [40, 200])
def test_what_comes_with_every_epoch_change_has_its_period(of):
    assert [(p.steps, p.phase) for p in find_periods(_epochs(np.random.default_rng(4), 0.5, 100, of, of))] == [(of, 0)]


def test_what_stops_half_way_is_no_period():
    series = 1 + 0.1 * np.random.default_rng(3).random(400)
    series[:200:10] += 1

    assert find_periods(series) == ()


@pytest.mark.parametrize("n", [0, 1, 11, 12])
def test_short_series_have_none(n):
    assert find_periods(np.arange(n, dtype=np.float64)) == ()
