"""Marks of steps that are missing, have no length or overlap: no two steps are counted as one."""

from __future__ import annotations

from typing import Any

import pytest

from made_traces import device, host, made_trace, step
from slowstep.analyses.steps.marks import NUMBERS_MISSING, REACHING_OVER, WITHOUT_LENGTH, find_mark_doubts
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.analyses.steps.whole_steps import END_UNKNOWN, LEFT_OUT, MARKS_OVERLAP, ONE_STEP_IS, STEPS_ARE
from slowstep.timeline.timeline import Timeline

JUMP = NUMBERS_MISSING(after=4, places=None)


def trace_of(*marks: dict[str, Any], count: int = 4, device_us: float = 60) -> Timeline:
    """Four steps of 100 us with two kernels each, of which the device works on one after the other; marked as said."""
    hosts, devices, free = [], [], 0.0
    for n in range(2 * count):
        at = 50 * n + 5
        hosts.append(host("cudaLaunchKernel", at, at + 5, "runtime", correlation=n))
        begun = max(at + 6, free)
        free = begun + device_us / 2
        devices.append(device("gemm", begun, free, correlation=n))
    return made_trace(hosts=hosts, devices=devices, steps=marks)


def lengths(trace: Timeline) -> dict[int, float]:
    steps, _ = find_trace_steps(trace)
    return {row["number"]: (row["end_ns"] - row["start_ns"]) / 1000 for row in steps.iter_rows(named=True)}


def doubts(trace: Timeline) -> dict[str, int]:
    return {row.name: row.count for row in find_mark_doubts(trace.table("marked_steps"))}


def test_marks_that_follow_each_other_are_not_doubtful() -> None:
    trace = trace_of(*(step(n + 4, 100 * n, 100 * n + 99) for n in range(4)))

    assert doubts(trace) == {}
    assert find_trace_steps(trace)[1] == ()


@pytest.mark.parametrize("device_us", [60, 140])
def test_a_step_whose_mark_is_missing_is_in_no_step(device_us: float) -> None:
    marks = [step(n + 4, 100 * n, 100 * n + 99) for n in (0, 2, 3)]
    whole = trace_of(*marks, step(5, 100, 199), device_us=device_us)

    trace = trace_of(*marks, device_us=device_us)

    assert lengths(trace) == {number: pytest.approx(length, rel=0.02) for number, length in lengths(whole).items() if number != 5}
    assert find_trace_steps(trace)[1][0] == JUMP
    assert doubts(trace) == {"missing-step-marks": 1}


def test_a_mark_without_length_is_said_and_lengthens_no_other() -> None:
    trace = trace_of(step(4, 0, 99), step(5, 100, 100), step(6, 200, 299), step(7, 300, 399))

    assert lengths(trace) == {4: 99, 6: 100, 7: 99}
    assert find_trace_steps(trace)[1] == (WITHOUT_LENGTH(marks=1), JUMP)
    assert doubts(trace) == {"marks-without-length": 1}


def test_numbers_that_always_count_by_ten_lack_none() -> None:
    trace = trace_of(*(step(10 * n, 100 * n, 100 * n + 99) for n in range(4)))

    assert doubts(trace) == {}


def test_numbers_that_begin_anew_lack_none() -> None:
    trace = trace_of(step(1, 0, 99), step(2, 100, 199), step(1, 200, 299), step(2, 300, 399))

    assert lengths(trace) == {1: 100, 2: 99}
    assert doubts(trace) == {}


@pytest.mark.parametrize(("unit", "ends_off"), [(0.001, (1, 2, 0)), (0.25, (1, 2, 2)), (1, (1, 2, -1))])
def test_marks_that_meet_but_for_the_rounding_of_their_times_do_not_overlap(unit: float, ends_off: tuple[int, ...]) -> None:
    marks = [step(n + 4, 100 * n + unit, 100 * (n + 1) + unit * (1 + off)) for n, off in enumerate(ends_off)]

    trace = trace_of(*marks, step(7, 300 + unit, 399))

    assert doubts(trace) == {}
    assert find_trace_steps(trace)[1] == ()
    assert find_trace_steps(trace)[0]["number"].to_list() == [4, 5, 6, 7]


@pytest.mark.parametrize("unit", [0.001, 0.25, 1])
def test_marks_that_overlap_by_more_than_rounding_do_so(unit: float) -> None:
    marks = [step(n + 4, 100 * n + unit, 100 * (n + 1) + 4 * unit) for n in range(3)]

    assert doubts(trace_of(*marks, step(7, 300 + unit, 399))) == {"overlapping-step-marks": 3}


@pytest.mark.parametrize("too_long", [3, 50, 150])
def test_marks_that_reach_into_the_next_end_where_that_begins(too_long: float) -> None:
    marks = [step(n + 4, 100 * n, 100 * n + 100 + too_long) for n in range(3)]

    trace = trace_of(*marks, step(7, 300, 399))

    assert lengths(trace) == {4: 100, 5: 100, 6: 100, 7: 99}
    assert find_trace_steps(trace)[1] == (REACHING_OVER(marks=3),)
    assert doubts(trace) == {"overlapping-step-marks": 3}


def test_a_last_mark_that_reaches_as_far_as_those_before_it_has_no_end() -> None:
    steps, notes = find_trace_steps(trace_of(*(step(n + 4, 100 * n, 100 * n + 150) for n in range(4))))

    assert steps["number"].to_list() == [4, 5, 6]
    assert notes[-1] == LEFT_OUT(steps=ONE_STEP_IS(number=7), why=END_UNKNOWN())


def test_a_mark_that_begins_where_its_neighbour_has_done_nothing_bounds_no_step() -> None:
    trace = trace_of(step(4, 0, 99), step(5, 100, 199), step(6, 102, 299), step(7, 300, 399))

    assert lengths(trace) == {4: 99, 7: 99}
    assert LEFT_OUT(steps=STEPS_ARE(numbers="5", last=6), why=MARKS_OVERLAP()) in find_trace_steps(trace)[1]


def test_of_marks_that_cross_without_following_each_other_none_counts() -> None:
    trace = trace_of(step(3, 0, 99), step(5, 100, 199), step(5, 150, 249), step(7, 300, 399))

    assert lengths(trace) == {3: 99, 7: 99}
    assert doubts(trace)["overlapping-step-marks"] == 2


def test_of_a_step_that_is_marked_twice_the_outer_mark_counts() -> None:
    twice = [step(n + 4, 100 * n + 1, 100 * n + 90) for n in range(4)]

    trace = trace_of(*twice, *(step(n + 4, 100 * n, 100 * n + 99) for n in range(4)))

    assert lengths(trace) == {4: 100, 5: 100, 6: 100, 7: 99}
    assert doubts(trace) == {"overlapping-step-marks": 4}


def test_a_mark_around_several_others_is_no_doubtful_one() -> None:
    trace = trace_of(step(0, 0, 399), *(step(n + 4, 100 * n, 100 * n + 99) for n in range(4)))

    assert doubts(trace) == {}
