"""What counting a few says of a share: exact intervals, held against the binomial distribution itself."""

from __future__ import annotations

import math

import pytest

from slowstep.analyses.over_time.periods import log_binomial_tail
from slowstep.analyses.python.binomial import share_bounds


def test_of_none_anything_may_be():
    assert share_bounds(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("of", [1, 5, 60])
def test_all_or_none_of_few_do_not_say_that_the_share_is_one_or_zero(of):
    least = 0.05 ** (1 / of)

    assert share_bounds(of, of) == (pytest.approx(least, rel=0.06), 1.0)
    assert share_bounds(0, of) == (0.0, pytest.approx(1 - least, rel=0.06))


@pytest.mark.parametrize(("hits", "of"), [(1, 10), (13, 70), (400, 1000)])
def test_each_bound_is_passed_with_a_chance_of_a_twentieth(hits, of):
    low, high = share_bounds(hits, of)

    assert math.exp(log_binomial_tail(hits, of, low)) == pytest.approx(0.05, abs=0.004)
    assert math.exp(log_binomial_tail(of - hits, of, 1 - high)) == pytest.approx(0.05, abs=0.004)
