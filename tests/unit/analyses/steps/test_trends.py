from __future__ import annotations

import numpy as np
import pytest

from how_many import how_many
from slowstep.analyses.over_time.periods import log_binomial_tail
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trends import find_trend

TRIES = how_many(200)
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


def test_less_is_asked_of_what_is_known_to_grow():
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(TRIES):
        trend = find_trend(20 * np.exp(0.3 * _resembling(rng.standard_normal(126), 0.8)) * np.linspace(1, 3, 126))
        assert trend is not None
        assert trend.growth_low <= trend.growth_likely <= max(trend.growth, trend.growth_low)
        found += trend.growth_likely > 0.1 * trend.first >= trend.growth_low

    assert found > 0.1 * TRIES


@pytest.mark.parametrize("noise", HEALTHY)
@pytest.mark.parametrize("n", [200, pytest.param(1000, marks=pytest.mark.slow)])
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


# Medians of a function's time (ms) in 24 stretches of a run on a shared machine: a list that grows steadily, written whole each time.
REAL = (35, 37, 48, 38, 40, 45, 52, 77, 84, 64, 97, 94, 83, 87, 128, 135, 139, 142, 90, 98, 97, 104, 132, 145)


def test_growth_far_beyond_the_jumps_of_a_machine_is_certain_though_it_stays_slow_for_long():
    trend = find_trend(np.repeat(REAL, 6).astype(np.float64))

    assert trend is not None
    assert 0.3 * trend.first < trend.growth_low < trend.growth


@pytest.mark.parametrize("levels", [(20, 20, 60), (20, 60, 60), (60, 40, 20), (20, 60, 50)])
def test_one_jump_or_a_machine_that_becomes_slower_twice_is_no_growth(levels):
    noise = np.random.default_rng(5).normal(1, 0.02, 240)

    trend = find_trend(np.repeat(levels, 80) * noise)

    assert trend is not None
    assert trend.growth_low <= 0.1 * trend.first


def test_no_more_is_certain_than_is_seen():
    # Half of the blocks are as long as the first: the line through them hardly rises.
    trend = find_trend(np.repeat(np.where(np.arange(24) % 2, 20.0, np.linspace(20, 80, 24)), 10))

    assert trend is None or trend.growth_low <= trend.growth
