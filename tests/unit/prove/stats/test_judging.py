from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slowstep.prove.stats.design import MIN_ROUNDS
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.intervals import RESAMPLES, Interval, LogRatio, student_pivots
from slowstep.prove.stats.judging import WORTH, holm, is_precise, is_trustworthy, judge, judge_all, level_spent, refuted_under, seen_from

ROUNDS = 12


def _estimate(arm: int, gain: float, error: float, rounds: int = ROUNDS) -> Estimate:
    ratio = LogRatio(value=math.log(gain), error=error, pivots=student_pivots(rounds - 1))
    return Estimate(
        arm=arm,
        rounds=rounds,
        steps=5 * rounds,
        wall=ratio.interval(),
        corrected=None,
        uses_corrected=False,
        per="sample",
        log_ratio=ratio,
    )


def _estimates(*gains: tuple[float, float]) -> dict[int, Estimate]:
    return {1: _estimate(1, 1.0, 0.01)} | {arm: _estimate(arm, *gain) for arm, gain in enumerate(gains, start=2)}


def _tail(estimate: Estimate, low: float) -> float:
    """The tail that a low end was made with."""
    off = (estimate.log_ratio.value - math.log(low)) / estimate.log_ratio.error
    return 1 - (int(np.searchsorted(estimate.log_ratio.pivots, off - 1e-9)) + 1) / (RESAMPLES + 1) + 1 / (RESAMPLES + 1)


@pytest.mark.parametrize(
    ("low", "high", "predicted_low", "verdict"),
    [
        (1.04, 1.5, None, "proved"),
        (1.03, 1.5, None, "cannot distinguish"),
        (1.5, 1.6, 1.8, "proved"),  # less than predicted, and yet a gain
        (0.98, 1.02, None, "refuted"),
        (0.98, 1.03, None, "cannot distinguish"),
        (1.01, 1.2, 1.3, "refuted"),
        (1.01, 1.2, 1.1, "cannot distinguish"),
        (0.5, 0.6, 0.9, "refuted"),
        (0.5, 1.02, 0.9, "refuted"),
        (0.0, math.inf, 1.1, "cannot distinguish"),
    ],
)
def test_verdicts_follow_the_ends_of_the_interval(low, high, predicted_low, verdict):
    interval = Interval(value=(low + min(high, 2.0)) / 2, low=low, high=high)

    assert judge(interval, rounds=ROUNDS, predicted_low=predicted_low) == verdict


def test_too_few_rounds_for_an_interval_say_nothing():
    assert judge(Interval(value=2.0, low=1.9, high=2.1), rounds=3) == "cannot distinguish"


def test_few_rounds_refute_nothing():
    shown = {rounds: judge(Interval(value=1.0, low=0.99, high=1.01), rounds=rounds) for rounds in (7, 8)}

    assert shown == {7: "cannot distinguish", 8: "refuted"}


def test_the_level_of_few_rounds_is_what_is_spent_by_then():
    # Lan and DeMets, one-sided 2.5 %: 0.15 % with half of the rounds.
    found = [0.025 * level_spent(rounds) for rounds in range(4, 10)]

    assert found == pytest.approx([0.0015, 0.0046, 0.0097, 0.0166, 0.025, 0.025], abs=1e-4)


def test_few_rounds_prove_what_is_clear_and_no_more():
    clear, unclear = (judge_all({2: _estimate(2, gain, 0.07, rounds=4)})[2] for gain in (5.8, 1.5))

    # Both are above 1.03 by the usual interval; Student's t with 3 degrees of freedom is 9.7 at the level of 4 rounds.
    assert _estimate(2, 1.5, 0.07, rounds=4).wall.low > WORTH
    assert (clear.verdict, unclear.verdict) == ("proved", "cannot distinguish")
    assert 5.8 / clear.interval.low == pytest.approx(math.exp(9.7 * 0.07), rel=0.05)
    assert (clear.seen_from, clear.may_refute) == (math.inf, False)


def test_an_unclear_lever_of_few_rounds_does_not_hold_back_another():
    both = judge_all({2: _estimate(2, 1.5, 0.07, rounds=4), 3: _estimate(3, 1.5, 0.07, rounds=8)})

    assert {arm: each.verdict for arm, each in both.items()} == {2: "cannot distinguish", 3: "proved"}


def test_with_as_many_rounds_as_a_verdict_takes_it_is_told_what_would_be_seen():
    (enough,) = judge_all({2: replace(_estimate(2, 2.0, 0.01), rounds=MIN_ROUNDS)}).values()

    assert (enough.verdict, enough.may_refute) == ("proved", True)
    assert enough.seen_from < 1.1


def test_without_levers_there_is_nothing_to_judge():
    assert holm(_estimates()) == {}
    assert judge_all(_estimates()) == {}


def test_one_lever_has_the_interval_of_its_estimate():
    estimates = _estimates((1.2, 0.02))

    assert holm(estimates) == {2: estimates[2].wall}


def test_the_control_is_no_claim_and_costs_the_levers_nothing():
    estimates = _estimates((1.2, 0.02))

    assert holm(estimates) == holm({2: estimates[2]})


def test_the_surest_is_held_against_the_smallest_tail_and_the_next_against_larger_ones():
    estimates = _estimates((1.08, 0.015), (1.5, 0.02), (1.2, 0.02))

    adjusted = holm(estimates)
    tails = {arm: _tail(estimates[arm], interval.low) for arm, interval in adjusted.items()}
    assert tails[3] == pytest.approx(0.025 / 3, abs=3e-4)
    assert tails[4] == pytest.approx(0.025 / 2, abs=3e-4)
    assert tails[2] == pytest.approx(0.025 / 1, abs=3e-4)


def test_after_the_first_that_fails_none_is_held_against_more():
    estimates = _estimates((1.5, 0.02), (1.04, 0.02), (1.0, 0.02))

    adjusted = holm(estimates)
    assert _tail(estimates[2], adjusted[2].low) == pytest.approx(0.025 / 3, abs=3e-4)
    assert _tail(estimates[3], adjusted[3].low) == pytest.approx(0.025 / 2, abs=3e-4)
    assert _tail(estimates[4], adjusted[4].low) == pytest.approx(0.025 / 2, abs=3e-4)


def test_a_lever_that_one_test_would_prove_is_not_proved_beside_five_that_do_nothing():
    alone = _estimates((1.06, 0.0125))
    beside = _estimates((1.06, 0.0125), *[(1.0, 0.0125)] * 5)

    assert judge_all(alone)[2].verdict == "proved"
    assert judge_all(beside)[2].verdict == "cannot distinguish"
    assert judge_all(beside)[2].interval.low < alone[2].wall.low


def test_the_high_end_is_adjusted_by_what_was_predicted():
    estimates = _estimates((1.2, 0.02), (1.2, 0.02))

    judged = judge_all(estimates, {2: 1.5, 3: 1.21})
    high = {arm: judgement.interval.high for arm, judgement in judged.items()}
    assert high[2] > high[3] == estimates[3].wall.high
    assert refuted_under(1.5) == 1.5
    assert refuted_under(None) == refuted_under(0.8) == WORTH


def test_verdicts_of_the_procedure_are_those_of_its_tests():
    rng = np.random.default_rng(5)
    for _ in range(200):
        estimates = _estimates(*[(float(rng.uniform(0.95, 1.15)), float(rng.uniform(0.005, 0.03))) for _ in range(6)])

        chances = sorted((e.log_ratio.chance_over(WORTH), arm) for arm, e in estimates.items() if arm > 1)
        proved = set()
        for k, (chance, arm) in enumerate(chances):
            if chance > 0.025 / (6 - k):
                break
            proved.add(arm)
        assert {arm for arm, judgement in judge_all(estimates).items() if judgement.verdict == "proved"} == proved


def test_what_would_be_seen_is_the_smallest_gain_that_this_width_would_prove():
    interval = Interval(value=1.0, low=0.96, high=1.04)
    larger = seen_from(interval) * 1.001

    assert judge(Interval(value=larger, low=larger * 0.96, high=larger * 1.04), rounds=ROUNDS) == "proved"
    assert seen_from(interval) == pytest.approx(1.0729, abs=1e-4)
    assert seen_from(Interval(value=1.0, low=0.0, high=math.inf)) == math.inf


def test_an_experiment_whose_control_gains_is_not_trusted():
    assert is_trustworthy(_estimate(1, 1.03, 0.01))
    assert not is_trustworthy(_estimate(1, 1.04, 0.01))
    assert not is_trustworthy(_estimate(1, 0.96, 0.01))


def test_the_control_is_held_against_its_99_percent_interval():
    beyond_95 = _estimate(1, math.exp(2.6 * 0.01), 0.01)

    assert beyond_95.wall.low > 1.0
    assert is_trustworthy(beyond_95)


def test_precision_needs_every_interval_and_enough_rounds():
    narrow, wide = _estimate(2, 3.0, 0.01), _estimate(3, 1.0, 0.03)

    assert not is_precise({}, 0.05)
    assert is_precise({2: narrow}, 0.05)
    assert not is_precise({2: narrow, 3: wide}, 0.05)
    assert not is_precise({2: _estimate(2, 3.0, 0.001, rounds=7)}, 0.05)


def test_of_two_starts_nothing_is_precise():
    found = [is_precise({2: replace(_estimate(2, 3.0, 0.001), starts=starts)}, 0.05) for starts in (1, 2, 3)]

    assert found == [True, False, True]


def test_the_control_may_be_wider_and_needs_its_rounds_all_the_same():
    narrow, wide = _estimate(2, 3.0, 0.01), _estimate(1, 1.0, 0.03)

    assert is_precise({1: wide, 2: narrow}, 0.05)
    assert not is_precise({1: _estimate(1, 1.0, 0.01, rounds=7), 2: narrow}, 0.05)
    assert not is_precise({1: _estimate(1, 1.0, 0.01)}, 0.05)


def test_precision_does_not_look_at_gains():
    assert is_precise({2: _estimate(2, 1.0, 0.0226)}, 0.05) == is_precise({2: _estimate(2, 4.0, 0.0226)}, 0.05)
    assert is_precise({2: _estimate(2, 1.0, 0.0221)}, 0.05) == is_precise({2: _estimate(2, 4.0, 0.0221)}, 0.05)
