"""The whole out of its halves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slowstep.prove.bench.overlap import arm_rate, put_together
from slowstep.prove.stats.figures import Figure
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps, no_steps


def exactly(value: float) -> Figure:
    return Figure(value=value, draws=np.full(100, value))


def test_with_workers_the_slower_half_decides():
    whole = put_together(exactly(400), exactly(1000), exactly(390), workers=2)

    assert (whole.how, whole.binds, whole.predicted.value) == ("max", "loader", pytest.approx(400))
    assert whole.agrees
    assert put_together(exactly(1000), exactly(400), None, workers=2).binds == "compute"


def test_without_workers_they_add_up():
    whole = put_together(exactly(500), exactly(500), exactly(250), workers=0)

    assert (whole.how, whole.binds, whole.predicted.value) == ("sum", "both", pytest.approx(250))
    assert whole.log_error == pytest.approx(0)


def test_without_workers_the_slower_half_decides_where_calls_return_before_their_work_is_done():
    whole = put_together(exactly(400), exactly(1000), exactly(390), workers=0, is_asynchronous=True, receive_ms=0.4)

    assert (whole.how, whole.binds, whole.predicted.value) == ("max", "loader", pytest.approx(400))
    assert whole.receiving_ms == 0


def test_halves_whose_intervals_overlap_have_no_slower_one():
    loader, compute = Figure(value=453, draws=np.linspace(437, 469, 500)), Figure(value=536, draws=np.linspace(320, 642, 500))

    whole = put_together(loader, compute, None, workers=2, receive_ms=0.4)

    assert whole.binds == "both"
    assert whole.receiving_ms == 0.4
    # By the halves as they are printed: what receiving adds is said for itself.
    assert put_together(exactly(453), exactly(536), None, workers=2, receive_ms=0.4).binds == "loader"


def test_the_change_of_an_epoch_is_beside_no_compute():
    # Of the loader's 6 ms a sample 5 wait for first batches: 1 ms runs beside the 2 ms of the compute.
    whole = put_together(exactly(1000 / 6), exactly(500), None, workers=2, starting_ms=5)

    assert whole.predicted.value == pytest.approx(1000 / 7)
    assert (whole.binds, whole.starting_ms) == ("loader", 5)
    # Without workers all adds up in any case.
    assert put_together(exactly(1000 / 6), exactly(500), None, workers=0, starting_ms=5).predicted.value == pytest.approx(125)


def test_receiving_is_the_training_threads_own():
    # 2 ms a sample of computing and 0.5 ms of receiving.
    assert put_together(exactly(1000), exactly(500), None, workers=1, receive_ms=0.5).predicted.value == pytest.approx(400)
    assert put_together(exactly(1000), exactly(500), None, workers=0, receive_ms=0.5).predicted.value == pytest.approx(1000 / 3)


def test_with_too_few_cores_neither_half_decides():
    whole = put_together(exactly(1000), exactly(1000), exactly(500), workers=2, core_ms=exactly(2.0))

    assert (whole.binds, whole.cores_bound, whole.predicted.value) == ("both", True, pytest.approx(500))
    assert not put_together(exactly(100), exactly(1000), None, workers=2, core_ms=exactly(2.0)).cores_bound


def test_what_all_cores_make_is_as_unsure_as_what_they_spend():
    spent_ms = Figure(value=2.0, draws=np.linspace(1.8, 2.2, 100))

    predicted = put_together(exactly(1000), exactly(1000), None, workers=2, core_ms=spent_ms).predicted

    assert predicted.value == 500
    assert (predicted.low, predicted.high) == pytest.approx((1000 / 2.19, 1000 / 1.81), rel=1e-3)


@pytest.mark.parametrize(("real", "agrees"), [(390, True), (365, True), (300, False), (None, None)])
def test_it_is_held_against_the_training(real, agrees):
    assert put_together(exactly(400), exactly(1000), None if real is None else exactly(real), workers=1).agrees is agrees


def steps(arms: list[int], *, block_steps: int, ns: dict[int, int], samples: int = 8, settling: int = 1) -> ExperimentSteps:
    """Blocks of these arms, each of so many counted steps behind those in which it settles."""
    rows = [(arm, block, number < settling) for block, arm in enumerate(arms) for number in range(settling + block_steps)]
    return ExperimentSteps(
        arm=np.array([arm for arm, _, _ in rows]),
        block=np.array([block for _, block, _ in rows]),
        ns=np.array([ns[arm] * (10 if first else 1) for arm, _, first in rows]),
        samples=np.full(len(rows), samples),
        delay_ns=np.zeros(len(rows), dtype=np.int64),
        settling=np.array([first for _, _, first in rows]),
        input_ns=np.ones(len(rows), dtype=np.int64),
    )


def plan(arms: list[int], block_steps: int) -> Plan:
    return Plan(seed=0, steps=block_steps, arms=(Arm(name="as-is"), Arm(name="control"), Arm(name="mock-loader")), blocks=tuple(arms))


def test_the_speed_of_arms_is_that_of_their_counted_steps():
    arms = [0, 1, 2] * 6
    made = steps(arms, block_steps=4, ns={0: 20_000_000, 1: 20_000_000, 2: 10_000_000})

    as_is, cached = (arm_rate(made, plan(arms, 4), which) for which in ((0, 1), (2,)))
    assert as_is is not None
    assert cached is not None
    assert (as_is.value, cached.value) == (pytest.approx(400), pytest.approx(800))


def test_blocks_that_lack_steps_are_none():
    arms = [0] * 4
    made = steps(arms, block_steps=4, ns={0: 20_000_000})

    assert arm_rate(made, plan(arms, 5), (0,)) is None
    assert arm_rate(made, plan(arms, 4), (2,)) is None


def test_steps_without_samples_have_no_speed():
    arms = [0] * 6

    assert arm_rate(steps(arms, block_steps=2, ns={0: 1000}, samples=-1), plan(arms, 2), (0,)) is None
    assert arm_rate(no_steps(), plan(arms, 2), (0,)) is None


def test_a_step_that_received_its_batch_a_step_earlier_leaves_the_others_known():
    arms = [0, 1] * 20
    plain = steps(arms, block_steps=4, ns={0: 1000, 1: 1000})
    ahead = plain.samples.copy()
    # An epoch's last step, and the next one's first.
    ahead[-2:] = (0, 16)

    made = replace(plain, samples=ahead)

    assert arm_rate(made, plan(arms, 4), (0,)).value == pytest.approx(arm_rate(plain, plan(arms, 4), (0,)).value)
    assert arm_rate(made, plan(arms, 4), (1,)).value == pytest.approx(arm_rate(plain, plan(arms, 4), (1,)).value)
    assert arm_rate(replace(plain, samples=np.zeros_like(ahead)), plan(arms, 4), (0,)) is None


@pytest.mark.parametrize(("silent", "is_known"), [(1, True), (6, True), (7, False), (12, False)])
def test_blocks_with_a_step_of_unknown_samples_are_left_out_while_most_are_known(silent, is_known):
    arms = [0, 2] * 12
    made = steps(arms, block_steps=4, ns={0: 20_000_000, 2: 10_000_000})
    of_cached = [block for block, arm in enumerate(arms) if arm == 2][:silent]
    for block in of_cached:
        row = np.flatnonzero((made.block == block) & ~made.settling)[0]
        made.samples[row], made.ns[row] = -1, 10**9

    as_is, cached = (arm_rate(made, plan(arms, 4), which) for which in ((0,), (2,)))

    assert as_is.value == pytest.approx(400)
    assert (cached is not None) is is_known
    assert cached is None or cached.value == pytest.approx(800)


@pytest.mark.parametrize("begins", [0, 1])
@pytest.mark.parametrize("block_steps", [4, 5])
def test_a_batch_that_is_trained_on_twice_is_counted_once(begins: int, block_steps: int) -> None:
    # The first of its steps waits for it, and takes 20 ms, the second 10.
    arms = [0] * 8
    plain = steps(arms, block_steps=block_steps, ns={0: 20_000_000}, settling=0)
    asks = (np.arange(len(plain.ns)) % block_steps) % 2 == begins
    made = replace(plain, samples=np.where(asks, 8, -1), ns=np.where(asks, 20_000_000, 10_000_000), input_ns=asks * 1_000_000)

    assert arm_rate(made, plan(arms, block_steps), (0,)).value == pytest.approx(8 / 0.03)


def test_blocks_without_a_whole_batch_have_no_speed() -> None:
    arms = [0] * 8
    plain = steps(arms, block_steps=4, ns={0: 20_000_000}, settling=0)
    asks = np.arange(len(plain.ns)) % 4 == 1

    assert arm_rate(replace(plain, samples=np.where(asks, 8, -1), input_ns=asks * 1), plan(arms, 4), (0,)) is None
    assert arm_rate(replace(plain, samples=np.full(len(asks), -1), input_ns=asks * 0), plan(arms, 4), (0,)) is None
