from __future__ import annotations

import math

import numpy as np
import pytest

from how_many import how_many
from slowstep.prove.stats.intervals import (
    FEWEST_ROUNDS,
    MOST_GROUPS,
    RESAMPLES,
    Interval,
    bootstrap_pivots,
    log_ratio,
    resamples,
    student_pivots,
)

# Quantiles of Student's t from printed tables: degrees of freedom, chance below, t.
PRINTED = [(1, 0.975, 12.706), (3, 0.995, 5.841), (7, 0.975, 2.365), (7, 0.995, 3.499), (29, 0.95, 1.699), (200, 0.975, 1.972)]


def _sums(as_is: object, arm: object, samples: float = 160.0) -> np.ndarray:
    as_is, arm = np.broadcast_arrays(np.asarray(as_is, float), np.asarray(arm, float))
    return np.column_stack([as_is, np.full(len(as_is), samples), arm, np.full(len(arm), samples)])


def _noisy(rounds: int, seed: int = 0, spread: float = 0.2, gain: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return _sums(np.exp(rng.normal(0, spread, rounds)), np.exp(rng.normal(0, spread, rounds)) / gain)


@pytest.mark.parametrize("rounds", range(FEWEST_ROUNDS))
def test_too_few_rounds_have_no_interval(rounds):
    with pytest.raises(ValueError, match="at least 4"):
        log_ratio(_noisy(rounds))


@pytest.mark.parametrize(("freedom", "chance", "t"), PRINTED)
def test_students_quantiles_are_those_of_printed_tables(freedom, chance, t):
    assert student_pivots(freedom)[round(chance * (RESAMPLES + 1)) - 1] == pytest.approx(t, abs=6e-4)


def test_rounds_that_are_all_the_same_leave_no_doubt():
    ratio = log_ratio(_sums([300.0] * 8, [200.0] * 8))

    assert ratio.interval() == Interval(
        value=pytest.approx(1.5, rel=1e-12), low=pytest.approx(1.5, rel=1e-12), high=pytest.approx(1.5, rel=1e-12)
    )
    assert ratio.chance_over(1.03) == ratio.chance_under(1.6) == 1 / (RESAMPLES + 1)
    assert ratio.chance_over(1.6) == ratio.chance_under(1.03) == 1.0


def test_the_error_of_a_mean_is_the_deviation_of_rounds_by_the_root_of_their_number():
    as_is = [90.0, 110.0, 95.0, 105.0, 100.0]

    assert log_ratio(_sums(as_is, [50.0] * 5)).error == pytest.approx(np.std(as_is, ddof=1) / 100 / math.sqrt(5))


def test_pivots_of_the_bootstrap_are_what_each_sample_of_rounds_would_say_by_itself():
    sums = _noisy(7, spread=0.4)
    sums[:, 3] *= [1, 2, 1, 1, 3, 1, 1]

    picked = resamples(7)[: how_many(300)]
    by_hand = []
    for weights in picked:
        sample = np.repeat(sums, np.rint(weights * 7).astype(int), axis=0)
        ratio = log_ratio(sample)
        by_hand.append((ratio.value - log_ratio(sums).value) / ratio.error)
    found = bootstrap_pivots(sums / sums.mean(axis=0) - 1, least_error=0.0)
    assert [float(np.abs(found - pivot).min()) for pivot in by_hand] == pytest.approx([0.0] * len(picked), abs=1e-9)


def test_samples_of_rounds_that_are_alike_by_chance_do_not_make_the_interval_endless():
    sums = _sums([100.0] * 5 + [130.0], [100.0] * 6)

    relative = sums / sums.mean(axis=0) - 1
    assert np.abs(bootstrap_pivots(relative)).max() < 20
    assert np.abs(bootstrap_pivots(relative, least_error=0.0)).max() > 1000


def test_the_gain_is_a_ratio_of_sums_so_that_a_rare_long_round_counts_with_all_of_it():
    ratio = log_ratio(_sums([100.0] * 9 + [1100.0], [100.0] * 10))

    assert ratio.factor == pytest.approx(2.0)


def test_throughput_counts_samples_and_not_steps():
    sums = _sums([100.0, 101, 99, 100], [200.0, 201, 199, 200])
    sums[:, 3] *= 4

    assert log_ratio(sums).factor == pytest.approx(2.0)


def test_intervals_are_never_narrower_than_students():
    ratio = log_ratio(_noisy(9))

    t = 2.306  # 8 degrees of freedom, 97.5 %
    assert ratio.interval().high >= math.exp(ratio.value + t * ratio.error) * 0.9999
    assert ratio.interval().low <= math.exp(ratio.value - t * ratio.error) * 1.0001


def test_rough_intervals_lie_within_the_whole_ones():
    rough, whole = log_ratio(_noisy(9), rough=True), log_ratio(_noisy(9))

    assert rough.value == whole.value
    assert whole.interval().low <= rough.interval().low < rough.interval().high <= whole.interval().high


def test_what_is_rare_in_one_arm_makes_the_interval_reach_to_its_side():
    rng = np.random.default_rng(4)
    rare = 100 * rng.lognormal(0, 0.02, 12)
    rare[3] += 300

    ratio = log_ratio(_sums(rare, 100 * rng.lognormal(0, 0.02, 12)))

    interval = ratio.interval()
    assert math.log(interval.high / interval.value) > 1.5 * math.log(interval.value / interval.low)


def test_higher_levels_have_wider_intervals():
    ratio = log_ratio(_noisy(12))

    ends = [ratio.interval(level) for level in (0.5, 0.9, 0.95, 0.99)]
    assert sorted(ends, key=lambda e: -e.low) == ends == sorted(ends, key=lambda e: e.high)


@pytest.mark.slow
def test_more_rounds_make_it_narrower_by_the_root_of_their_number():
    few = np.median([log_ratio(_noisy(40, seed)).interval().precision for seed in range(40)])
    many = np.median([log_ratio(_noisy(160, seed)).interval().precision for seed in range(40)])

    assert few / many == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("tail", [0.025, 0.005, 0.0125, 0.025 / 6, 0.3])
def test_chances_and_ends_say_the_same(tail):
    ratio = log_ratio(_noisy(10, seed=3, gain=1.2))

    low, high = ratio.low(tail), ratio.high(tail)
    assert ratio.chance_over(low * 0.9999) <= tail < ratio.chance_over(low * 1.0001)
    assert ratio.chance_under(high * 1.0001) <= tail < ratio.chance_under(high * 0.9999)


def test_a_chance_too_small_to_be_told_has_no_end():
    ratio = log_ratio(_noisy(10))

    assert ratio.low(1e-5) == 0.0
    assert ratio.high(1e-5) == math.inf
    assert Interval(value=1.0, low=0.0, high=math.inf).precision == math.inf


def test_precision_is_half_the_width_as_a_share():
    assert Interval(value=2.0, low=2.0 / 1.05, high=2.0 * 1.05).precision == pytest.approx(0.05)


def test_many_rounds_are_taken_together_by_neighbours():
    sums = _noisy(4 * MOST_GROUPS)

    ratio = log_ratio(sums)
    assert ratio.value == pytest.approx(log_ratio(sums.reshape(MOST_GROUPS, 4, 4).sum(axis=1)).value, rel=1e-9)
    assert ratio.error == pytest.approx(log_ratio(sums[: 4 * MOST_GROUPS]).error)
    assert ratio.interval().low < 1.0 < ratio.interval().high
