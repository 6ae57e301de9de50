"""How much of a step is dispatching operations one by one is told by timed steps, or by stacks of a device that works on meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from made_measurements import measurements
from slowstep.analyses.compute.dispatched import Dispatched, find_dispatched
from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.timeline.timeline import Frame

MS = 1_000_000
FRAME = Frame(file="/home/update.py", function="update", first_line=1, line=9)
SAMPLED = ByOperation(idled=60, worked=20, of=100, low=0.5, high=0.7, high_of_all=0.86, frame=FRAME, most=50)
NOTE: dict[str, Any] = {
    "kind": "dispatched", "wall_ns": 10 * MS, "cpu_ns": 10 * MS, "delay_ns": 0, "timing_ns": 0, "asynchronous": False, "operations": 100,
    "operations_ns": 2 * MS, "operations_cpu_ns": 2 * MS, "low_ns": 8000, "above_low_ns": MS, "above_four_times_ns": MS // 2,
    "above_sixteen_times_ns": 0, "short_gaps_ns": 5 * MS, "gaps_ns": 6 * MS, "capped_gaps_ns": 7 * MS,
}  # fmt: skip


def found(sampled: ByOperation | None, *notes: dict[str, Any]) -> Dispatched | None:
    m = measurements()
    timed = [{**note, "at_ns": int(m.steps.bounds_ns[0]) + 20 * MS} for note in notes]
    trainer = replace(m.trainer, facts=replace(m.trainer.facts, notes={**m.trainer.facts.notes, "dispatched": timed}))
    return find_dispatched(trainer, m.steps, replace(m.ledger, by_operation=sampled))


def test_where_neither_tells_nothing_is_known():
    assert found(None) is None


def test_timed_steps_tell_what_is_no_computing():
    dispatched = found(None, NOTE, NOTE)

    assert dispatched is not None
    assert dispatched.operations == 100
    # Python, and the operations less what they compute; at worst and at best the other way round.
    assert (dispatched.handing_over.expected, dispatched.kernels.expected) == (7.5 * MS, MS / 2)
    assert (dispatched.handing_over.low, dispatched.handing_over.high) == (6 * MS, 9 * MS)


def test_stacks_tell_how_long_the_device_waited_for_the_host():
    dispatched = found(SAMPLED)

    assert dispatched is not None
    assert dispatched.operations is None
    assert dispatched.handing_over.expected == pytest.approx(0.6 * dispatched.own_ns)
    # At best all that stands in them is.
    assert dispatched.handing_over.high == pytest.approx(0.86 * dispatched.own_ns)
    assert (dispatched.kernels.low, dispatched.kernels.high) == (0.0, pytest.approx(0.2 * dispatched.own_ns))


@pytest.mark.parametrize(("asynchronous", "stacks_tell"), [(False, False), (True, True)])
def test_of_calls_that_return_before_they_are_done_the_times_tell_less_than_whether_the_device_idles(asynchronous, stacks_tell):
    dispatched = found(SAMPLED, {**NOTE, "asynchronous": asynchronous})

    assert dispatched is not None
    assert (dispatched.sampled is not None) is stacks_tell


def test_operations_wait_no_longer_for_helpers_than_these_compute():
    waiting = {**NOTE, "operations_ns": 5 * MS}

    alone, helped = found(None, waiting), found(None, {**waiting, "helpers_cpu_ns": MS})

    assert alone is not None
    assert helped is not None
    assert (alone.kernels.expected, helped.kernels.expected) == (3.5 * MS, 1.5 * MS)
    # What is left of 3 ms the helpers waited for cores, and the thread for them.
    assert alone.own_ns == helped.own_ns == 10 * MS
