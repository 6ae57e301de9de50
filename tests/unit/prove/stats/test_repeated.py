"""What pairs of runs say, and whether runs without a lever are alike."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.prove.stats.design import FEWEST_PAIRS
from slowstep.prove.stats.judging import judge_all
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns, log_ratio_of_pairs


def test_few_pairs_that_differ_have_a_wide_interval() -> None:
    interval = log_ratio_of_pairs([1.9, 2.0, 2.1]).interval()
    # Student with two degrees of freedom: 4.303 standard errors on both sides.
    half = 4.303 * float(np.log([1.9, 2.0, 2.1]).std(ddof=1)) / 3**0.5
    middle = float(np.log([1.9, 2.0, 2.1]).mean())
    assert (np.log(interval.low), np.log(interval.high)) == pytest.approx((middle - half, middle + half), rel=0.02)


def test_one_pair_has_no_interval() -> None:
    with pytest.raises(ValueError, match="1 pair"):
        log_ratio_of_pairs([2.0])


def test_true_gains_lie_in_the_interval_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(4)
    intervals = [log_ratio_of_pairs(np.exp(drawn.normal(0.3, 0.1, size=5))).interval() for _ in range(1000)]

    assert np.mean([each.low <= np.exp(0.3) <= each.high for each in intervals]) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("pairs", "verdict"), [(FEWEST_PAIRS - 1, "cannot distinguish"), (FEWEST_PAIRS, "proved")])
def test_too_few_pairs_prove_nothing(pairs: int, verdict: str) -> None:
    found = RepeatedRuns(state="measured", ratios=(2.0, 2.01, 2.0, 2.02)[:pairs])

    assert judge_all({2: found}, None, {2: FEWEST_PAIRS})[2].verdict == verdict


@pytest.mark.parametrize(
    ("control", "is_doubtful"),
    [((), False), ((1.2, 1.21), False), ((1.2, 1.21, 1.2, 1.21), True), ((1.2, 0.8, 1.1, 0.95), False)],
)
def test_runs_that_differ_without_a_lever_are_a_doubt(control: tuple[float, ...], is_doubtful: bool) -> None:
    assert AllRepeated(control=control).is_doubtful == is_doubtful
