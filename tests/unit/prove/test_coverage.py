"""Simulated experiments: intervals hold as often as they promise, and levers that do nothing are proved no more often than stated.

The whole of it, with other methods beside, is benchmarks/coverage.py.
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

from fake_executor import FakeExecutor, FakeTraining
from slowstep.analyses.over_time.periods import log_binomial_tail
from slowstep.prove.stats.design import MIN_ROUNDS, schedule
from slowstep.prove.stats.estimates import estimate
from slowstep.prove.stats.judging import is_precise, is_trustworthy, judge_all
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.record.experiment.lever import LeverSpec

# More of them are missed, where the stated share is the true one, in under one run of this test in a hundred.
UNLIKELY = math.log(0.01)
TRUE_GAINS = {2: 1.0, 3: 1.3, 4: 2.5}


def _lever(number: int) -> Arm:
    return Arm(name=f"lever {number}", levers=(LeverSpec(name=f"lever-{number}"),))


def _stalls(steps, rng):
    """One step in a hundred takes four to a thousand times as long, in whatever arm it is."""
    hit = rng.random(len(steps.ns)) < 0.01
    steps.ns[hit] += (60e6 * (1 + rng.pareto(1.5, int(hit.sum())))).astype(np.int64)


def _two_seconds_of_another_process(steps, rng):
    begin = rng.integers(0, len(steps.ns) - 60)
    steps.ns[begin : begin + 60] = (steps.ns[begin : begin + 60] * 2.5).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("disturb", [None, _stalls, _two_seconds_of_another_process])
@pytest.mark.parametrize(("spread", "alike"), [(0.15, 0.5), (0.37, 0.78)])
@pytest.mark.parametrize("rounds", [8, pytest.param(20, marks=pytest.mark.nightly)])
def test_the_95_percent_interval_holds_the_true_gain(rounds, spread, alike, disturb):
    missed = tries = 0
    for seed in range(60):
        arms = (Arm(name="as-is"), Arm(name="control"), *(_lever(i) for i in range(3)))
        plan = Plan(seed=seed, steps=5, arms=arms, blocks=schedule(5, rounds, seed))
        executor = FakeExecutor(FakeTraining(gains=TRUE_GAINS, spread=spread, alike=alike, seed=seed))
        executor.post(plan)
        executor.sleep(10_000.0)
        steps = executor.steps()
        if disturb is not None:
            disturb(steps, np.random.default_rng(seed))
        found = estimate(steps, plan)
        # What disturbs costs every arm the same time: it has a gain of its own, which is one only where the lever's is.
        levers = TRUE_GAINS if disturb is not _stalls else {2: 1.0}
        missed += sum(not found[arm].wall.low <= gain <= found[arm].wall.high for arm, gain in levers.items())
        tries += len(levers)

    assert log_binomial_tail(missed, tries, 0.05) > UNLIKELY


def _experiment(gain, seed, rounds=40):
    """Steps of six levers that all have this gain, in the noise of a machine that is shared but not full."""
    rng = np.random.default_rng(seed)
    arms = (Arm(name="as-is"), Arm(name="control"), *(_lever(i) for i in range(6)))
    plan = Plan(seed=seed, steps=5, arms=arms, blocks=schedule(8, rounds, seed))
    block = np.repeat(np.arange(len(plan.blocks)), plan.steps)
    arm = np.array(plan.blocks)[block]
    log = np.zeros(len(block))
    for i, shock in enumerate(rng.normal(0, 0.13, len(block))):
        log[i] = 0.5 * log[i - 1] + shock
    ns = 20e6 * np.exp(log) / np.where(arm < 2, 1.0, gain)
    unknown, no = np.full(len(block), -1), np.zeros(len(block), dtype=np.bool_)
    steps = ExperimentSteps(
        arm=arm, block=block, ns=ns.astype(np.int64), samples=unknown, delay_ns=unknown, settling=no, input_ns=unknown * 0
    )
    return steps, plan


def _stopped(steps, plan):
    """The estimates when the experiment stops: looked at as `run` does, if not as often."""
    for rounds in range(MIN_ROUNDS, 41, 4):
        kept = steps.block < rounds * len(plan.arms)
        found = estimate(ExperimentSteps(**{each.name: getattr(steps, each.name)[kept] for each in fields(steps)}), plan)
        if is_precise(found, 0.05):
            break
    return found


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("gain", [1.0, 1.03])
def test_six_levers_that_gain_nothing_of_worth_are_proved_in_no_more_than_the_stated_share_of_experiments(gain):
    proved = untrusted = missed = 0
    tries = 75
    for seed in range(tries):
        found = _stopped(*_experiment(gain, seed))
        proved += any(judged.verdict == "proved" for judged in judge_all(found).values())
        untrusted += not is_trustworthy(found[1])
        missed += sum(not found[arm].wall.low <= gain <= found[arm].wall.high for arm in range(2, 8))

    assert log_binomial_tail(proved, tries, 0.025) > UNLIKELY
    assert log_binomial_tail(untrusted, tries, 0.01) > UNLIKELY
    # All six are held against the same blocks as they are: their misses come together.
    assert missed / (6 * tries) < 0.08
