from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slowstep.analyses.periods import FALSE_ALARMS, find_periods, log_binomial_tail
from slowstep.analyses.steps import Floats

Noise = Callable[[np.random.Generator, int], Floats]
TRIES = 150


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
@pytest.mark.parametrize("n", [60, 200])
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


def test_what_stops_half_way_is_no_period():
    series = 1 + 0.1 * np.random.default_rng(3).random(400)
    series[:200:10] += 1

    assert find_periods(series) == ()


@pytest.mark.parametrize("n", [0, 1, 11, 12])
def test_short_series_have_none(n):
    assert find_periods(np.arange(n, dtype=np.float64)) == ()
