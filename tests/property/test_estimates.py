from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_executor import made_steps
from how_many import how_many
from slowstep.prove.stats.design import schedule
from slowstep.prove.stats.estimates import Estimate, estimate
from slowstep.prove.stats.intervals import log_ratio
from slowstep.prove.stats.judging import holm
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps

ARMS = 3
STEPS = 2
# Whole tens, of which a tenth is the delay.
TIMES = st.integers(1_000, 100_000_000).map(lambda tens: 10 * tens)
# Steps of blocks by round and arm, in ns.
ROUNDS = st.lists(st.lists(st.lists(TIMES, min_size=STEPS, max_size=STEPS), min_size=ARMS, max_size=ARMS), min_size=4, max_size=10)
SEEDS = st.integers(0, 1000)
# Drawing these many numbers takes longer than all that is done with them.
FEW = settings(max_examples=how_many(40))


def _measured(rounds: list[list[list[int]]], seed: int) -> tuple[ExperimentSteps, Plan]:
    order = schedule(ARMS, len(rounds), seed)
    plan = Plan(seed=seed, steps=STEPS, arms=tuple(Arm(name=str(i)) for i in range(ARMS)), blocks=order)
    rows = [(arm, block, ns, 32, ns // 10, False) for block, arm in enumerate(order) for ns in rounds[block // ARMS][arm]]
    return made_steps(rows), plan


def _estimates(rounds: list[list[list[int]]], seed: int = 0) -> dict[int, Estimate]:
    return estimate(*_measured(rounds, seed))


def _ends(estimates: dict[int, Estimate]) -> list[float]:
    both = [interval for e in estimates.values() for interval in (e.wall, e.corrected) if interval is not None]
    return [end for interval in both for end in (interval.value, interval.low, interval.high)]


@FEW
@given(ROUNDS, SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_rounds_and_of_arms_in_them_changes_nothing(rounds, seed, draw):
    shuffled = draw.sample(rounds, len(rounds))

    assert _ends(_estimates(rounds)) == _ends(_estimates(shuffled, seed))


@FEW
@given(ROUNDS, st.integers(2, 1000))
def test_a_clock_of_another_unit_gives_the_same_gains(rounds, unit):
    longer = [[[ns * unit for ns in block] for block in each] for each in rounds]

    assert _ends(_estimates(longer)) == pytest.approx(_ends(_estimates(rounds)), rel=1e-6)


@FEW
@given(st.lists(TIMES, min_size=4, max_size=20), st.integers(1, 50), SEEDS)
def test_an_arm_that_always_takes_the_same_share_of_the_time_has_exactly_that_gain(times, times_as_fast, seed):
    rounds = [[[ns * times_as_fast] * STEPS, [ns * times_as_fast] * STEPS, [ns] * STEPS] for ns in times]

    found = _estimates(rounds, seed)
    assert [found[2].wall.value, found[2].wall.low, found[2].wall.high] == pytest.approx([times_as_fast] * 3, rel=1e-6)
    assert [found[1].wall.low, found[1].wall.high] == pytest.approx([1.0, 1.0], rel=1e-6)


@FEW
@given(ROUNDS)
def test_the_value_lies_inside_its_interval(rounds):
    for e in _estimates(rounds).values():
        assert e.wall.low <= e.wall.value * (1 + 1e-9)
        assert e.wall.high >= e.wall.value * (1 - 1e-9)


@FEW
@given(ROUNDS)
def test_as_is_measured_against_an_arm_gains_the_inverse_of_what_the_arm_gains(rounds):
    sums = np.array([[sum(each[0]), 64, sum(each[2]), 64] for each in rounds], dtype=np.float64)

    there, back = log_ratio(sums), log_ratio(sums[:, [2, 3, 0, 1]])
    assert there.value == pytest.approx(-back.value, abs=1e-9)
    assert there.error == pytest.approx(back.error, rel=1e-6)


@FEW
@given(ROUNDS, st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_step_that_bears_a_change_of_arms_and_steps_of_no_block_change_nothing(rounds, where):
    steps, plan = _measured(rounds, 0)
    columns = (getattr(steps, field.name).tolist() for field in dataclasses.fields(steps) if field.name != "input_ns")
    rows = list(zip(*columns, strict=True))
    more = []
    for number, (row, extra) in enumerate(zip(rows, where * 20, strict=False)):
        change = [(row[0], row[1], 10**12, 1, 0, True)] if extra and number % STEPS == 0 else []
        more += [*change, (0, -1, 10**12, 1, 0, False), row] if extra else [row]

    assert _ends(estimate(made_steps(more), plan)) == _ends(_estimates(rounds))


@FEW
@given(ROUNDS)
def test_adjusted_intervals_are_never_narrower(rounds):
    estimates = _estimates(rounds)
    family = {arm: dataclasses.replace(estimates[2], arm=arm) for arm in range(2, 6)}

    for interval in holm(family).values():
        assert interval.low <= estimates[2].wall.low
        assert interval.high >= estimates[2].wall.high
