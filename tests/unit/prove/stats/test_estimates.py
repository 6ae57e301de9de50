from __future__ import annotations

import numpy as np
import pytest

from fake_executor import FakeExecutor, FakeTraining, made_steps
from slowstep.prove.stats.design import schedule
from slowstep.prove.stats.estimates import Estimate, estimate
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.throughput import Throughputs
from slowstep.record.experiment.lever import LeverSpec

LEVER = Arm(name="lever", levers=(LeverSpec(name="lever"),))


def _plan(rounds: int = 12, steps: int = 5, levers: int = 1) -> Plan:
    arms = (Arm(name="as-is"), Arm(name="control"), *[LEVER] * levers)
    return Plan(seed=0, steps=steps, arms=arms, blocks=schedule(len(arms), rounds, 0))


def _estimates(training: FakeTraining, plan: Plan, **asked: object) -> dict[int, Estimate]:
    executor = FakeExecutor(training)
    executor.post(plan)
    executor.sleep(10_000.0)
    return estimate(executor.steps(), plan, **asked)


def test_without_steps_there_is_no_estimate():
    assert estimate(made_steps([]), _plan()) == {}


def test_without_noise_the_true_gain_is_found_and_its_interval_has_no_width():
    found = _estimates(FakeTraining(gains={2: 1.8}), _plan())

    assert list(found) == [1, 2]
    assert found[2].gain.value == pytest.approx(1.8, rel=1e-6)
    assert found[2].gain.precision == pytest.approx(0.0, abs=1e-6)
    assert found[1].gain.value == pytest.approx(1.0, rel=1e-6)
    assert (found[2].rounds, found[2].steps, found[2].per) == (12, 60, "sample")


def test_with_noise_the_interval_holds_the_true_gain():
    found = _estimates(FakeTraining(gains={2: 1.3}, spread=0.15, alike=0.5), _plan(rounds=40))

    assert found[2].wall.low < 1.3 < found[2].wall.high
    assert 0.01 < found[2].wall.precision < 0.08


def test_larger_batches_are_compared_by_their_samples():
    found = _estimates(FakeTraining(gains={2: 0.5}, samples={2: 128}), _plan())

    assert found[2].gain.value == pytest.approx(2.0, rel=1e-6)
    # Steps of 20 ms with 32 samples, and of 40 ms with 128.
    assert found[2].throughputs == Throughputs(per="sample", as_is_per_s=pytest.approx(1600.0), per_s=pytest.approx(3200.0))


def test_where_samples_are_not_known_steps_are_compared_and_it_is_said():
    found = _estimates(FakeTraining(gains={2: 0.5}, samples={2: 128}, knows_samples=False), _plan())

    assert found[2].gain.value == pytest.approx(0.5, rel=1e-6)
    assert found[2].per == "step"
    assert found[2].throughputs == Throughputs(per="step", as_is_per_s=pytest.approx(50.0), per_s=pytest.approx(25.0))


def test_the_floor_of_a_mocked_input_is_added_back_to_its_arm_alone():
    found = _estimates(FakeTraining(gains={2: 2.0}), _plan(), floors={2: 1.5e6})

    assert found[2].gain.value == pytest.approx(20 / 11.5, rel=1e-6)
    assert found[1].gain.value == pytest.approx(1.0, rel=1e-6)


def test_steps_that_settle_do_not_count():
    slow_to_settle = FakeTraining(gains={2: 1.5}, settling={0: 7, 2: 4})

    assert _estimates(slow_to_settle, _plan())[2].gain.value == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("period", [2, 5])
def test_an_event_that_comes_back_counts_wholly_where_blocks_are_whole_periods(period):
    training = FakeTraining(every=period, event_ms=30.0, without_events=frozenset({2}))

    found = _estimates(training, _plan(steps=10))
    assert found[2].gain.value == pytest.approx((20 + 30 / period) / 20, rel=1e-6)
    assert found[2].gain.precision == pytest.approx(0.0, abs=1e-6)


def test_an_event_rarer_than_blocks_makes_the_interval_wide_and_not_the_gain_wrong():
    training = FakeTraining(every=37, event_ms=400.0, without_events=frozenset({2}), spread=0.02)

    gain = _estimates(training, _plan(rounds=60), own_long=[2])[2].gain
    assert gain.low < (20 + 400 / 37) / 20 < gain.high
    assert gain.precision > 0.1


def test_waiting_for_a_core_is_in_the_wall_time_and_not_in_the_corrected_one():
    training = FakeTraining(gains={2: 1.5}, delay_share=0.5)

    found = _estimates(training, _plan(rounds=60))[2]
    assert found.corrected is not None
    assert found.corrected.value == pytest.approx(1.5, rel=1e-6)
    assert found.wall.value == pytest.approx((20 + 10) / (20 / 1.5 + 10), rel=0.15)


def test_the_gain_is_the_wall_one_unless_the_corrected_one_is_asked_for():
    training = FakeTraining(gains={2: 1.5}, delay_share=0.5)

    wall, corrected = _estimates(training, _plan())[2], _estimates(training, _plan(), corrected={2})[2]
    assert wall.gain == wall.wall
    assert not wall.uses_corrected
    assert corrected.gain == corrected.corrected
    assert corrected.uses_corrected
    assert (corrected.wall, corrected.corrected) == (wall.wall, wall.corrected)
    assert corrected.log_ratio.factor == corrected.gain.value


def test_where_the_delay_is_not_known_there_is_no_corrected_gain():
    found = _estimates(FakeTraining(gains={2: 1.5}, delay_share=0.5, knows_delay=False), _plan(), corrected={2})[2]

    assert found.corrected is None
    assert not found.uses_corrected
    assert found.gain == found.wall


def test_an_arm_of_too_few_rounds_has_no_estimate():
    steps = FakeTraining(not_applicable={3: "no loader"})

    assert list(_estimates(steps, _plan(levers=2))) == [1, 2]
    assert list(_estimates(FakeTraining(), _plan(rounds=3))) == []
    assert list(_estimates(FakeTraining(), _plan(rounds=4))) == [1, 2]


def test_a_wild_block_makes_the_interval_wide_and_does_not_move_its_end_past_the_truth():
    plan = _plan(rounds=20)
    executor = FakeExecutor(FakeTraining(gains={2: 1.2}, spread=0.05))
    executor.post(plan)
    executor.sleep(10_000.0)
    steps = executor.steps()
    calm = estimate(steps, plan)[2].gain
    # Each of its steps is too short to be one of those that are spread.
    steps.ns[steps.block == plan.blocks.index(0, 15)] *= 5

    wild = estimate(steps, plan)[2].gain
    assert wild.value > calm.value * 1.1
    assert wild.low < 1.2
    assert wild.precision > 4 * calm.precision


def test_other_levels_have_other_widths():
    plan, training = _plan(), FakeTraining(spread=0.1)

    assert _estimates(training, plan, level=0.99)[2].wall.precision > _estimates(training, plan)[2].wall.precision


def test_an_arm_that_ran_in_other_rounds_is_compared_with_those_of_its_rounds():
    plan = _plan(rounds=12)
    executor = FakeExecutor(FakeTraining(gains={2: 1.5}))
    executor.post(plan)
    executor.sleep(10_000.0)
    steps = executor.steps()
    late = steps.block >= 18
    slowed = np.where(late, steps.ns * 10, steps.ns)
    missing = late & (steps.arm == 2)
    kept = ~missing

    found = estimate(
        type(steps)(**{name: (slowed if name == "ns" else getattr(steps, name))[kept] for name in type(steps).__slots__}), plan
    )
    assert found[2].gain.value == pytest.approx(1.5, rel=1e-6)
    assert found[2].rounds == 6
