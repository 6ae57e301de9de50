"""What a framework counts of its own threads takes the place of what the host did meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.ledger.counted_device import COUNTED_WAIT, CountedRows, charge_counted, hide_waits
from slowstep.parts import OPTIMIZER, UNKNOWN, UPDATES, Part, PartKind

DRAW, SAVE = Part("output", PartKind.CALLBACK, "draw"), Part("store", PartKind.CALLBACK, "save")


def charged(*, length: Any, busy: Any, waited: Any, draw: Any, save: Any = 0) -> CountedRows:
    """Steps of such a length, in which the host was in callbacks for so long, and else in the framework's calls."""
    length, draw = np.array(length, float), np.array(draw, float)
    save = np.zeros_like(length) + save
    counts = {"waited_ns": np.array(waited, float), "busy_ns": None if busy is None else np.array(busy, float)}
    work = CountedWork(**counts, waits=(), batches=1, num_workers=0, dataset=None, is_asynchronous=True)
    steps: Any = type("Edges", (), {"edges_ns": np.concatenate(([0], np.cumsum(length))).astype(np.int64)})()
    return charge_counted(work, steps, {DRAW: draw, SAVE: save, OPTIMIZER: length - draw - save})


def of(rows: Any) -> dict[str, list[float]]:
    return {part.name or part.kind.value: ns.tolist() for part, ns in rows.items() if ns.any()}


def test_host_time_under_a_busy_device_is_computing():
    found = charged(length=[100, 100], busy=[100, 100], waited=[0, 0], draw=[40, 40])

    assert of(found.ns) == of(found.high) == {"updates": [100, 100]}


def test_what_the_device_idles_is_the_callbacks_in_which_the_host_was_all_the_time():
    found = charged(length=[100, 100], busy=[30, 30], waited=[10, 10], draw=[100, 100])

    assert of(found.ns) == {"draw": [60, 60], "input_wait": [10, 10], "updates": [30, 30]}
    assert of(found.high) == of(found.ns)


def test_what_may_have_been_in_one_callback_as_well_as_in_another_is_nobodys_and_within_the_bounds_of_both():
    found = charged(length=[100], busy=[60], waited=[0], draw=[70], save=[30])

    assert of(found.ns) == {"draw": [10], "updates": [60], "unknown": [30]}
    assert (found.high[DRAW].tolist(), found.high[SAVE].tolist()) == ([40], [30])


def test_a_device_that_idles_in_the_frameworks_own_calls_waits_for_these():
    found = charged(length=[100], busy=[70], waited=[0], draw=[0])

    assert of(found.ns) == {"updates": [70], "unknown": [30]}
    assert found.high[UPDATES].tolist() == [100]


def test_a_step_that_is_shorter_than_others_of_its_window_has_no_more_than_fits():
    found = charged(length=[50, 150], busy=[80, 80], waited=[20, 20], draw=[0, 0])

    assert (found.ns[UPDATES].tolist(), found.ns[COUNTED_WAIT].tolist()) == ([40, 80], [10, 20])


def test_a_device_of_which_nobody_knows_when_it_works_may_always_do_and_blames_nobody():
    found = charged(length=[100], busy=None, waited=[10], draw=[70])

    assert of(found.ns) == {"unknown": [100]}
    assert of(found.high) == {"draw": [70], "input_wait": [10], "updates": [100], "unknown": [100]}


@given(st.lists(st.tuples(*[st.integers(0, 1000)] * 5), min_size=1))
def test_rows_sum_to_the_steps_and_lie_within_their_bounds(steps):
    draw, save, calls, busy, waited = (np.array(column) for column in zip(*steps, strict=True))
    length = draw + save + calls + 1

    found = charged(length=length, busy=busy, waited=waited, draw=draw, save=save)

    assert np.sum([*found.ns.values()], axis=0) == pytest.approx(length.astype(float))
    low, high = found.low or found.ns, found.high or found.ns
    for part, ns in found.ns.items():
        assert (low[part] >= -1e-9).all()
        assert (low[part] <= ns + 1e-9).all()
        assert (ns <= high[part] + 1e-9).all()
    idle = np.maximum(length - busy - waited, 0)
    assert (high[DRAW] <= np.minimum(idle, draw) + 1e-6).all()
    assert UNKNOWN in found.ns


def test_of_calls_that_hide_their_waits_no_more_is_known_than_that_they_computed_or_waited():
    calls, draw = np.array([3.0, 5.0]), np.array([1.0, 2.0])

    found = hide_waits({UPDATES: calls, DRAW: draw})

    assert found.low is not None
    assert found.high is not None
    assert {part: ns.tolist() for part, ns in found.ns.items()} == {
        DRAW: [1.0, 2.0],
        COUNTED_WAIT: [0.0, 0.0],
        UPDATES: [0.0, 0.0],
        UNKNOWN: [3.0, 5.0],
    }
    assert {part: float(ns.sum()) for part, ns in found.high.items()} == {DRAW: 3.0, COUNTED_WAIT: 8.0, UPDATES: 8.0, UNKNOWN: 8.0}
    assert {part: float(ns.sum()) for part, ns in found.low.items()} == {DRAW: 3.0, COUNTED_WAIT: 0.0, UPDATES: 0.0, UNKNOWN: 0.0}
