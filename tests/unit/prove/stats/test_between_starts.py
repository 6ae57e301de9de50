from __future__ import annotations

import numpy as np
import pytest

from slowstep.calibration.between_runs import BETWEEN_STARTS
from slowstep.prove.stats.between_starts import between_starts
from slowstep.prove.stats.intervals import log_ratio


def _sums(logs: list[float]) -> np.ndarray:
    """Rounds whose log ratios are these."""
    one = np.ones(len(logs))
    return np.column_stack([100 * np.exp(logs), one, 100 * one, one])


def test_one_start_has_no_component_of_its_own():
    assert between_starts(np.array([0.1, -0.1, 0.2]), np.zeros(3, dtype=np.int64)) is None


def test_starts_that_differ_no_more_than_their_rounds_have_none():
    assert between_starts(np.array([1.0, -1.0] * 3), np.repeat([0, 1, 2], 2)) is None


def test_starts_of_a_round_each_tell_nothing():
    assert between_starts(np.array([1.0, -1.0, 2.0]), np.array([0, 1, 2])) is None


def test_of_equal_starts_the_variance_is_that_of_their_means():
    found = between_starts(np.array([1.0, 1.2, -1.0, -1.2, 0.0, 0.0]), np.array([0, 0, 1, 1, 2, 2]))

    assert found is not None
    assert found.variance == pytest.approx(np.var([1.1, -1.1, 0.0], ddof=1) / 3)
    assert found.freedom == 2


def test_of_unequal_starts_a_long_one_weighs_as_it_does_in_the_mean():
    even = between_starts(np.array([1.0, 1.1] * 4 + [-1.0, -1.1] * 4), np.repeat([0, 1], 8))
    uneven = between_starts(np.array([1.0, 1.1] * 7 + [-1.0, -1.1]), np.repeat([0, 1], [14, 2]))

    assert even is not None
    assert uneven is not None
    # The component is the same 2.1^2 / 2; in the mean it is 1 / 2 of that, and (14^2 + 2^2) / 16^2 of it.
    assert uneven.variance / even.variance == pytest.approx(2 * (14**2 + 2**2) / 16**2, rel=0.02)


def test_an_interval_of_starts_that_differ_is_wider_than_that_of_as_many_rounds_of_one():
    logs = [0.50, 0.51, 0.49, 0.50, 0.60, 0.61, 0.59, 0.60, 0.40, 0.41, 0.39, 0.40]
    start = np.repeat([0, 1, 2], 4)

    pooled, of_one = log_ratio(_sums(logs), start=start), log_ratio(_sums(logs))
    assert pooled.value == of_one.value
    # Three starts, 0.1 apart: a standard error of 0.1 / sqrt(3), with two degrees of freedom.
    assert np.log(pooled.interval().high / pooled.factor) == pytest.approx(4.30 * 0.1 / np.sqrt(3), rel=0.05)
    assert of_one.interval().high < pooled.interval().high
    assert log_ratio(_sums(logs), start=start * 0).interval() == of_one.interval()


def test_of_two_starts_their_own_component_counts_however_alike_they_are():
    alike = between_starts(np.array([1.0, -1.0, 1.0, -1.0]), np.array([0, 0, 1, 1]))

    assert alike is not None
    assert (alike.variance, alike.freedom) == (0.0, 1)
    # Half of what starts were measured to differ, and what rounds do: 4 / 2 by the two degrees of freedom, of four of them.
    assert alike.least == pytest.approx(BETWEEN_STARTS.value**2 / 2 + 2 / 4)


def test_two_starts_that_are_alike_are_held_as_far_apart_as_starts_were_measured_to_be():
    logs, start = [0.50, 0.51, 0.49, 0.50] * 2, np.repeat([0, 1], 4)

    of_two, of_one = (log_ratio(_sums(logs), start=each) for each in (start, start * 0))
    assert np.log(of_one.interval().high / of_one.factor) < 0.01
    # With seven degrees of freedom 2.36 standard errors, each that of two starts.
    assert np.log(of_two.interval().high / of_two.factor) == pytest.approx(2.36 * BETWEEN_STARTS.value / np.sqrt(2), rel=0.1)


def test_two_starts_that_differ_have_an_interval_of_one_degree_of_freedom():
    logs = [0.50, 0.51, 0.49, 0.50, 0.70, 0.71, 0.69, 0.70]

    of_two = log_ratio(_sums(logs), start=np.repeat([0, 1], 4))
    assert np.log(of_two.interval().high / of_two.factor) == pytest.approx(12.7 * 0.1, rel=0.02)


def test_rough_intervals_of_two_starts_lie_within_the_whole_ones():
    logs, start = [0.50, 0.58, 0.42, 0.55, 0.44, 0.49, 0.61, 0.52], np.repeat([0, 1], 4)

    rough, whole = (log_ratio(_sums(logs), start=start, rough=rough).interval() for rough in (True, False))
    assert whole.low <= rough.low < rough.high <= whole.high
