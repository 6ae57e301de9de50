from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.periods import log_binomial_tail
from slowstep.analyses.steps import Floats
from slowstep.analyses.trends import find_trend

TRIES = 200
PROMISED = 0.01


def _resembling(shocks: Floats, by: float) -> Floats:
    series = np.zeros(len(shocks))
    for i in range(1, len(shocks)):
        series[i] = by * series[i - 1] + shocks[i]
    return series


HEALTHY = {
    "lognormal": lambda rng, n: 20 * np.exp(0.3 * rng.standard_normal(n)),
    "tails without a variance": lambda rng, n: 20 + rng.pareto(1.1, n),
    "neighbours alike": lambda rng, n: 20 * np.exp(0.2 * _resembling(rng.standard_normal(n), 0.8)),
    "alike for a twentieth of the run": lambda rng, n: 20 * np.exp(0.1 * _resembling(rng.standard_normal(n), 1 - 20 / n)),
    "neighbours alike, with tails": lambda rng, n: np.abs(20 + _resembling(rng.standard_t(2, n), 0.8)),
    "rare slow steps": lambda rng, n: 20 + rng.standard_normal(n) + 200 * (rng.random(n) < 0.05),
    "a jump": lambda rng, n: 20 + rng.standard_normal(n) + 8 * (np.arange(n) > n * rng.random()),
}


@pytest.mark.parametrize("noise", HEALTHY)
@pytest.mark.parametrize("n", [200, 1000])
def test_steps_that_do_not_grow_are_said_to_in_no_more_than_the_promised_share(noise, n):
    rng = np.random.default_rng(5)
    trends = [find_trend(HEALTHY[noise](rng, n)) for _ in range(TRIES)]

    alarms = sum(trend.growth_low > 0.1 * trend.first for trend in trends if trend)

    assert log_binomial_tail(alarms, TRIES, PROMISED) > np.log(0.05)


@pytest.mark.parametrize("n", [96, 200, 1000])
def test_growth_is_found_and_measured(n):
    rng = np.random.default_rng(5)
    series = 20 * np.exp(0.1 * rng.standard_normal(n)) * np.linspace(1, 2, n)

    trend = find_trend(series)

    assert trend is not None
    assert trend.last / trend.first == pytest.approx(2, rel=0.15)
    assert 0.1 * trend.first < trend.growth_low < trend.growth


def test_growth_without_noise_is_certain():
    trend = find_trend(np.linspace(10, 30, 100))

    assert trend is not None
    assert trend.growth_low == pytest.approx(trend.growth, rel=0.1)


def test_under_96_steps_nothing_is_said():
    assert find_trend(np.linspace(10, 30, 95)) is None
