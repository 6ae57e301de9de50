from __future__ import annotations

import math
from collections import Counter

import pytest

from slowstep.prove.stats.design import (
    MIN_ROUNDS,
    MOST_ROUNDS,
    READY_STEPS,
    block_steps,
    common_period,
    doubts,
    make_plan,
    needed_s,
    round_seconds,
    schedule,
    whole_bunches,
)
from slowstep.prove.stats.plan import Arm
from slowstep.record.experiment.lever import LeverSpec

ONE = (Arm(name="mock-loader", levers=(LeverSpec(name="mock-loader"),)),)
FIFTEEN = tuple(Arm(name=f"lever {i}", levers=(LeverSpec(name=f"lever-{i}"),)) for i in range(15))
SIX = tuple(Arm(name=f"lever {i}", levers=(LeverSpec(name=f"lever-{i}"),)) for i in range(6))


def test_no_rounds_are_no_blocks():
    assert schedule(3, 0, seed=1) == ()


def test_every_round_has_every_arm_once():
    blocks = schedule(5, 40, seed=1)

    assert all(sorted(blocks[at : at + 5]) == [0, 1, 2, 3, 4] for at in range(0, 200, 5))


@pytest.mark.slow
def test_orders_are_drawn_for_each_round_and_again_the_same_by_the_seed():
    rounds = [schedule(3, 600, seed=7)[at : at + 3] for at in range(0, 1800, 3)]

    often = Counter(rounds)
    assert len(often) == 6
    assert max(often.values()) < 2 * min(often.values())
    assert schedule(3, 600, seed=7) == schedule(3, 600, seed=7)
    assert schedule(3, 600, seed=7) != schedule(3, 600, seed=8)


@pytest.mark.parametrize(("step_ms", "steps"), [(0.5, 100), (1.0, 50), (9.9, 6), (10.0, 5), (20.0, 5), (3000.0, 5)])
def test_blocks_are_short_but_of_short_steps_there_are_more(step_ms, steps):
    assert block_steps(step_ms) == steps


@pytest.mark.parametrize(("period", "steps"), [(2, 6), (5, 5), (7, 7), (30, 30), (3, 6)])
def test_a_block_is_a_whole_number_of_periods(period, steps):
    assert block_steps(20.0, period) == steps


@pytest.mark.parametrize(("turn", "most", "steps"), [(1, 100, 1), (4, 100, 32), (4, 31, 16), (4, 5, 4), (4, 3, 1)])
def test_of_loaders_in_turns_a_block_has_whole_bunches(turn, most, steps):
    assert whole_bunches(1, turn, most=most) == steps


def test_bunches_and_periods_are_whole_together_where_there_is_time():
    assert whole_bunches(6, 4, most=100) == 96
    assert whole_bunches(6, 4, most=30) == 24
    assert whole_bunches(6, 4, most=11) == 6
    assert whole_bunches(600, 4, most=40) == 32


def test_a_block_is_cut_to_the_budget_by_whole_periods():
    assert block_steps(1.0, 20, most=45) == 40
    assert block_steps(1.0, 20, most=200) == 60


def test_a_period_longer_than_the_budget_is_given_up():
    assert block_steps(20.0, 100, most=60) == 5
    assert block_steps(20.0, 100, most=3) == 3


def test_long_steps_get_blocks_of_one_and_never_of_none():
    assert block_steps(5000.0, most=1) == 1
    assert block_steps(5000.0, most=0) == 1


def every(*counts: int) -> tuple[Arm, ...]:
    return tuple(Arm(name=str(count), levers=(LeverSpec(name="logging-off", every=count),)) for count in counts)


@pytest.mark.parametrize(
    ("counts", "period", "steps"), [((2,), 1, 6), ((3,), 1, 6), ((2, 3), 1, 6), ((2,), 10, 20), ((4,), 7, 28), ((1,), 10, 10)]
)
def test_blocks_hold_all_turns_of_one_call_in_k(counts, period, steps):
    plan = make_plan(every(*counts), seed=0, step_ms=20.0, period_steps=period, budget_s=120.0)

    assert plan.steps == steps


@pytest.mark.parametrize(("counts", "period", "steps"), [((100,), 1, 5), ((2, 49), 1, 6), ((10,), 40, 40)])
def test_turns_that_would_make_blocks_too_long_are_not_whole_and_periods_still_are(counts, period, steps):
    plan = make_plan(every(*counts), seed=0, step_ms=20.0, period_steps=period, budget_s=120.0)

    assert plan.steps == steps


def test_periods_are_joined():
    assert common_period([]) == 1
    assert common_period([10]) == 10
    assert common_period([10, 4]) == 20


def test_as_is_and_the_control_come_before_the_levers():
    plan = make_plan(ONE, seed=3, step_ms=20.0, budget_s=60.0)

    assert [arm.name for arm in plan.arms] == ["as-is", "control", "mock-loader"]
    assert plan.arms[0].levers == plan.arms[1].levers == ()
    assert plan.seed == 3
    assert plan.blocks == schedule(3, len(plan.blocks) // 3, 3)


def test_the_longest_step_is_the_one_with_which_an_arm_alone_is_judged_within_the_budget():
    plan = make_plan(ONE, seed=3, step_ms=20.0, budget_s=60.0)

    assert plan.longest_step_s == pytest.approx(60.0 / (MIN_ROUNDS * (plan.steps + 2)))
    assert plan.ready_s == pytest.approx(30.0)


def test_levers_have_the_steps_that_they_must_see_however_small_the_budget():
    assert make_plan(ONE, seed=1, step_ms=250, budget_s=10).ready_s == pytest.approx(READY_STEPS * 0.25)


def test_a_plan_lasts_longer_than_its_budget_even_where_the_arms_are_twice_as_fast():
    plan = make_plan(SIX, seed=0, step_ms=20.0, budget_s=60.0)

    rounds = len(plan.blocks) // 8
    assert MIN_ROUNDS < rounds <= MOST_ROUNDS
    assert rounds * round_seconds(8, plan.steps, 10.0) > 60.0
    assert doubts(plan, step_ms=20.0, budget_s=60.0, advised_s=180.0) == ()


def test_a_plan_lasts_longer_than_its_budget_where_one_of_many_levers_is_applicable():
    plan = make_plan(FIFTEEN, seed=0, step_ms=8.0, budget_s=40.0)

    rounds = len(plan.blocks) // 17
    assert rounds * round_seconds(3, plan.steps, 8.0) > 40.0


def test_a_plan_that_cannot_be_proved_in_its_budget_says_which_would_do():
    plan = make_plan(SIX, seed=0, step_ms=2000.0, budget_s=60.0)

    assert plan.steps == 1
    assert len(plan.blocks) >= MIN_ROUNDS * 8
    (doubt,) = doubts(plan, step_ms=2000.0, budget_s=60.0, advised_s=390.5)
    assert "8 rounds of 8 variants take about 384 s" in doubt
    assert "--budget 391s" in doubt
    assert needed_s(plan, step_ms=2000.0) == pytest.approx(384, abs=1)


def test_a_period_that_no_block_holds_is_said_with_the_budget_that_it_needs():
    plan = make_plan(ONE, seed=0, step_ms=20.0, period_steps=500, budget_s=60.0)

    (doubt,) = doubts(plan, step_ms=20.0, period_steps=500, budget_s=60.0, advised_s=241.0)
    assert "every 500 steps" in doubt
    assert "--budget 241s" in doubt
    assert needed_s(plan, step_ms=20.0, period_steps=500) == pytest.approx(241, abs=1)
    enough = make_plan(ONE, seed=0, step_ms=20.0, period_steps=500, budget_s=241.0)
    assert enough.steps == 500
    assert doubts(enough, step_ms=20.0, period_steps=500, budget_s=241.0, advised_s=723.0) == ()


def test_an_arm_without_levers_is_refused():
    with pytest.raises(ValueError, match="needs a lever"):
        make_plan((Arm(name="as-is"),), seed=0, step_ms=20.0, budget_s=60.0)


@pytest.mark.parametrize(("step_ms", "budget_s"), [(0.0, 60.0), (20.0, 0.0)])
def test_a_step_or_a_budget_of_no_length_is_refused(step_ms, budget_s):
    with pytest.raises(ValueError, match="longer than nothing"):
        make_plan(ONE, seed=0, step_ms=step_ms, budget_s=budget_s)


def test_where_calls_are_asynchronous_blocks_are_longer_and_others_steps_come_before_and_after_them():
    plan = make_plan(ONE, seed=3, step_ms=20.0, is_asynchronous=True, budget_s=60.0)
    shared = make_plan(ONE, seed=3, step_ms=2.0, is_asynchronous=True, shares_cores=True, budget_s=60.0)
    longest = make_plan(ONE, seed=3, step_ms=20.0, is_asynchronous=True, shares_cores=True, budget_s=600.0)
    slow = make_plan(ONE, seed=3, step_ms=200.0, is_asynchronous=True, shares_cores=True, budget_s=6000.0)
    short = make_plan(SIX, seed=3, step_ms=100.0, is_asynchronous=True, shares_cores=True, budget_s=60.0)

    assert (plan.steps, plan.settling, plan.going_on) == (20, 10, 10)
    assert (shared.steps, shared.settling, shared.going_on) == (128, 64, 32)
    # No longer than a block may be, and never shorter than where nothing is shared.
    assert (longest.steps, slow.steps) == (50, 20)
    # As many as there is time for.
    assert short.steps < 20
    assert short.settling == short.going_on == math.ceil(short.steps / 2)
    assert MIN_ROUNDS * round_seconds(8, short.steps, 100.0, short.uncounted) <= 60.0
