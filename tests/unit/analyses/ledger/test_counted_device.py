"""What a framework counts of its own threads takes the place of what the host did meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowstep.analyses.batches.counted import CountedWork
from slowstep.analyses.ledger.counted_device import COUNTED_WAIT, UPDATES, move_counted
from slowstep.parts import OPTIMIZER, Part, PartKind

CALLBACK = Part("output", PartKind.CALLBACK, "draw")


def moved(*, busy: Any, waited: Any, callback: Any, length: Any, asynchronous: bool = True) -> dict[Part, Any]:
    """The rows of steps of such a length, in which the host was in a callback for so long, and else in the framework's calls."""
    length, callback = np.array(length, float), np.array(callback, float)
    rows = {CALLBACK: callback, OPTIMIZER: length - callback}
    of_steps = {"waited_ns": np.array(waited, float), "busy_ns": np.array(busy, float)}
    work = CountedWork(**of_steps, batches=1, num_workers=0, dataset=None, is_asynchronous=asynchronous)
    edges = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    steps: Any = type("Edges", (), {"edges_ns": edges})()
    move_counted(work, steps, rows)
    return rows


def test_host_time_under_a_busy_device_is_computing():
    rows = moved(length=[100, 100], busy=[100, 100], waited=[0, 0], callback=[40, 40])

    assert rows[CALLBACK].tolist() == [0, 0]
    assert rows[UPDATES].tolist() == [100, 100]


def test_what_the_device_idles_is_the_callbacks_and_no_more():
    rows = moved(length=[100, 100], busy=[30, 30], waited=[10, 10], callback=[90, 90])

    assert rows[CALLBACK].tolist() == [60, 60]
    assert rows[COUNTED_WAIT].tolist() == [10, 10]
    assert rows[UPDATES].tolist() == [30, 30]


def test_a_device_that_idles_longer_than_the_host_was_beside_its_calls_idles_in_them():
    rows = moved(length=[100], busy=[30], waited=[0], callback=[20])

    assert (rows[CALLBACK].tolist(), rows[UPDATES].tolist()) == ([20], [80])


def test_windows_that_hold_several_steps_blame_nobody_for_the_difference_between_these():
    # What is estimated for each is right for both.
    rows = moved(length=[80, 120], busy=[100, 100], waited=[0, 0], callback=[40, 40])

    assert rows[CALLBACK].sum() == 0


def test_a_framework_whose_calls_wait_for_it_leaves_the_host_what_it_did():
    rows = moved(length=[100], busy=[30], waited=[20], callback=[40], asynchronous=False)

    assert (rows[CALLBACK].tolist(), rows[COUNTED_WAIT].tolist(), rows[UPDATES].tolist()) == ([40], [20], [40])


@given(st.lists(st.tuples(*[st.integers(0, 1000)] * 4), min_size=1), st.booleans())
def test_rows_sum_to_the_steps_and_none_is_negative(steps, asynchronous):
    length = [1 + sum(each[:2]) for each in steps]
    callback = [each[0] for each in steps]
    busy, waited = [each[2] for each in steps], [each[3] for each in steps]

    rows = moved(length=length, busy=busy, waited=waited, callback=callback, asynchronous=asynchronous)

    assert np.sum([*rows.values()], axis=0) == pytest.approx(np.array(length, float))
    assert all((ns >= -1e-9).all() for ns in rows.values())
    idle = max(float(np.sum(length) - np.sum(busy) - np.sum(waited)), 0.0)
    assert not asynchronous or rows[CALLBACK].sum() <= idle + 1e-6
