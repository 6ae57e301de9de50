"""Which loaders get workers, and what receiving their batches costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from made_measurements import changed, fed, measurements
from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.by_workers import handed_over, leave_most, made_by_workers
from slowstep.diagnosis.evidence.input.input_side import InputSide, find_side
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules.input import serial_loader


@pytest.fixture
def measured() -> Measurements:
    """Steps in which the training thread makes a batch for 3 ms."""
    return measurements(**fed(0, cpu_ms=3.0))


def side_of(m: Measurements) -> InputSide:
    """Whose batches take as long as those of `m.input.made_by_loader`."""
    side = find_side(m)
    assert isinstance(side, InputSide)
    return replace(side, removable_ns=np.sum([loader.ns for loader in m.input.made_by_loader], axis=0))


def in_turns(m: Measurements, *each_ms: float, datasets: Sequence[str | None] = (None,) * 3) -> Measurements:
    """The same, made by several loaders in turns whose batches take so long."""
    count = m.steps.count
    made = []
    for turn, ms in enumerate(each_ms):
        ns = np.where(np.arange(count) % len(each_ms) == turn, ms * 1e6, 0.0)
        made.append(MadeByLoader(batches=count // len(each_ms), ns=ns, each_ns=ms * 1e6, dataset=datasets[turn]))
    return changed(m, made_by_loader=tuple(made))


def test_one_loader_hands_over_one_batch_a_step(measured):
    side = side_of(measured)

    handed = handed_over(measured, side)

    assert handed.side is side
    assert handed.loaders is None
    assert handed.receipts == pytest.approx(1.0, abs=0.02)
    assert not leave_most(measured, side_of(measured))


def test_of_several_loaders_those_get_workers_whose_batches_take_longer_than_receiving_them(measured):
    m = in_turns(measured, 0.2, 0.3, 8.5)
    side = side_of(m)

    handed = handed_over(m, side)

    assert (handed.loaders, handed.receipts) == (1, pytest.approx(1 / 3, abs=0.02))
    # A receipt of 1 ms in each third step.
    removed = made_by_workers(handed.side, 1, receipts=handed.receipts).expected.removed_ns
    assert float(removed.mean()) == pytest.approx(8.5e6 / 3 - 1e6 / 3, rel=0.05)
    # What the others' making takes stays with the training thread.
    assert handed.side.rest_ns == pytest.approx(float(m.step_ns.mean()) - 8.5e6 / 3, rel=0.02)
    assert not leave_most(m, side)


def test_of_what_workers_take_off_a_loop_the_delay_is_known(measured):
    side = side_of(measured)
    queued = replace(side, own_queued_ns=side.removable_ns / 2)

    assert made_by_workers(side, 1).expected.delay_share == 0.0
    case = made_by_workers(queued, 1).expected
    assert case.delay_share * case.removed_ns.sum() == pytest.approx(queued.own_queued_ns.sum())


@pytest.mark.parametrize(
    ("each_ms", "datasets", "said"),
    [
        ((0.3, 8.5), ("Quick", "Slow"), "for the loader of Slow: the other's batches take"),
        ((0.3, 8.5, 9.5), ("Quick", "Slow", "Large"), "for the loaders of Slow and Large: the other's batches take"),
        ((0.2, 0.3, 8.5), ("Quick", "Same", "Same"), "for 1 of the 3 loaders: the others' batches take"),
        ((0.2, 8.5), ("Quick", None), "for 1 of the 2 loaders: the other's batches take"),
    ],
    ids=["one", "two", "the same data set", "no name"],
)
def test_which_loaders_get_workers_is_said_by_their_data_sets(measured, each_ms, datasets, said):
    judged = serial_loader.judge(in_turns(measured, *each_ms, datasets=datasets))

    assert isinstance(judged, Judged)
    assert said in judged.finding.fixes[0].text


@pytest.mark.parametrize(("each_ms", "left"), [(0.6, True), (1.5, True), (2.5, False)])
def test_workers_leave_most_of_what_takes_as_long_to_receive(measured, each_ms, left):
    m = in_turns(measured, each_ms)

    assert leave_most(m, side_of(m)) is left
