"""Steps whose device records are missing, and those that look like it and are whole."""

from __future__ import annotations

from typing import Any

import pytest

from made_traces import device, host, made_trace, step
from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.analyses.steps.whole_steps import (
    EVENTS_MISSING,
    FEWER_STEPS,
    FILE_CUT_OFF,
    KERNELS_MISSING,
    LAUNCHES_LOST,
    LEFT_OUT,
    NO_OTHER_TELLS,
    NOTHING_LEFT,
    ONE_STEP_IS,
    STEPS_ARE,
)
from slowstep.timeline.timeline import Timeline

LAUNCHES = 10
FOUR_AND_FIVE = STEPS_ARE(numbers="4", last=5)


def trace_of(shown: list[int], *, launched: list[int] | None = None, operators: list[int] | None = None, **facts: Any) -> Timeline:
    """Steps of 1 ms from number 3 on, of which the trace shows so many kernels, launches (as many as kernels) and operators (ten)."""
    hosts, devices = [], []
    for n, kernels in enumerate(shown):
        for k in range(LAUNCHES if operators is None else operators[n]):
            hosts.append(host("aten::mm", 1000 * n + 45 * k + 10, 1000 * n + 45 * k + 40, external=100 * n + k + 1))
        for k in range(kernels if launched is None else launched[n]):
            at = 1000 * n + 45 * k + 20
            hosts.append(host("cudaLaunchKernel", at, at + 5, "runtime", correlation=100 * n + k, external=100 * n + k + 1))
            if k < kernels:
                devices.append(device("gemm", at + 10, at + 30, correlation=100 * n + k))
    steps = [step(n + 3, 1000 * n, 1000 * n + 999) for n in range(len(shown))]
    return made_trace(hosts=hosts, devices=devices, steps=steps, **facts)


def numbers(trace: Timeline) -> list[int]:
    return find_trace_steps(trace)[0]["number"].to_list()


def test_steps_whose_launches_have_no_kernels_are_left_out_and_counted() -> None:
    steps, notes = find_trace_steps(trace_of([10, 0, 2, 10], launched=[10, 10, 10, 10]))

    assert steps["number"].to_list() == [3, 6]
    assert notes == (LEFT_OUT(steps=FOUR_AND_FIVE, why=KERNELS_MISSING(launches=20, missing=18, remedy=FEWER_STEPS)),)


def test_steps_without_launches_whose_operators_launch_elsewhere_are_left_out() -> None:
    steps, notes = find_trace_steps(trace_of([10, 0, 3, 10]))

    assert steps["number"].to_list() == [3, 6]
    assert notes == (LEFT_OUT(steps=FOUR_AND_FIVE, why=LAUNCHES_LOST(remedy=FEWER_STEPS)),)


def test_steps_that_launch_nothing_because_they_do_nothing_of_the_kind_are_whole() -> None:
    assert numbers(trace_of([10, 0, 10, 10], operators=[10, 0, 10, 10])) == [3, 4, 5, 6]


def test_steps_that_launch_less_with_fewer_operators_are_whole() -> None:
    assert numbers(trace_of([10, 6, 10, 10], operators=[10, 6, 10, 10])) == [3, 4, 5, 6]


def test_a_kernel_that_is_missing_here_and_there_costs_no_step() -> None:
    assert numbers(trace_of([10, 9, 10], launched=[10, 10, 10])) == [3, 4, 5]


def test_a_trace_of_the_host_alone_lacks_nothing() -> None:
    assert numbers(trace_of([0, 0, 0])) == [3, 4, 5]


def test_without_any_work_of_a_device_its_launches_leave_the_steps_as_they_are() -> None:
    assert numbers(trace_of([0, 0, 0], launched=[10, 10, 10])) == [3, 4, 5]


def test_launches_into_a_graph_that_is_captured_need_no_kernels() -> None:
    hosts = [
        host("cudaLaunchKernel", 1000 * n + 90 * k, 1000 * n + 90 * k + 5, "runtime", correlation=10 * n + k)
        for n in range(3)
        for k in range(5)
    ]
    devices = [device("gemm", 1000 * n + 90 * k + 6, 1000 * n + 90 * k + 60, correlation=10 * n + k) for n in (0, 2) for k in range(5)]
    marks = [step(n, 1000 * n, 1000 * n + 999) for n in range(3)]
    capture = [host("cudaStreamBeginCapture_v10000", 995, 996, "runtime"), host("cudaStreamEndCapture_v10000", 1500, 1501, "runtime")]

    assert numbers(made_trace(hosts=[*hosts, *capture], devices=devices, steps=marks)) == [0, 1, 2]
    assert numbers(made_trace(hosts=hosts, devices=devices, steps=marks)) == [0, 2]


def test_functions_of_the_host_that_are_launched_need_no_kernels() -> None:
    hosts = [
        host("cudaLaunchHostFunc", 1000 * n + k, 1000 * n + k + 1, "runtime", correlation=900 + 10 * n + k)
        for n in range(2)
        for k in range(5)
    ]
    hosts += [host("cudaLaunchKernel", 1000 * n + 50, 1000 * n + 60, "runtime", correlation=n) for n in range(2)]
    devices = [device("gemm", 1000 * n + 70, 1000 * n + 90, correlation=n) for n in range(2)]

    assert numbers(made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 999), step(2, 1000, 1999)])) == [1, 2]


@pytest.mark.parametrize(("shown", "left"), [([1, 0, 7], []), ([0, 0, 4], []), ([10, 10, 5], [3, 4]), ([10, 1, 10, 4], [3, 5])])
def test_of_a_cut_file_steps_that_hold_less_than_the_fullest_are_left_out(shown: list[int], left: list[int]) -> None:
    assert numbers(trace_of(shown, complete=False)) == left
    # Where no operators are in the trace either.
    assert numbers(trace_of(shown, operators=[0] * len(shown), complete=False)) == left


def test_in_a_cut_file_the_same_operators_launch_all_of_the_same_work() -> None:
    assert numbers(trace_of([20, 19, 20, 3], operators=[20, 20, 20, 20], complete=False)) == [3, 5]
    assert numbers(trace_of([20, 19, 20, 3], operators=[20, 18, 20, 20], complete=False)) == [3, 4, 5]


def test_a_step_of_a_cut_file_that_no_other_confirms_is_left_out_where_there_is_a_device() -> None:
    steps, notes = find_trace_steps(trace_of([10, 2, 5], complete=False))
    of_one, said = find_trace_steps(trace_of([10], complete=False))

    assert steps.is_empty()
    assert of_one.is_empty()
    assert notes == (
        LEFT_OUT(steps=ONE_STEP_IS(number=5), why=FILE_CUT_OFF()),
        LEFT_OUT(steps=ONE_STEP_IS(number=4), why=EVENTS_MISSING()),
        LEFT_OUT(steps=ONE_STEP_IS(number=3), why=NO_OTHER_TELLS()),
        NOTHING_LEFT(),
    )
    assert said[-2:] == notes[-2:]


def test_a_cut_file_without_steps_is_not_taken_as_one() -> None:
    hosts = [host("cudaLaunchKernel", 10 * n, 10 * n + 5, "runtime", correlation=n) for n in range(3)]
    devices = [device("gemm", 10 * n + 6, 10 * n + 9, correlation=n) for n in range(3)]

    steps, notes = find_trace_steps(made_trace(hosts=hosts, devices=devices, complete=False))

    assert steps.is_empty()
    assert notes[0].holds(NOTHING_LEFT())


def test_where_no_step_is_left_nothing_is_said_of_how_busy_the_device_was() -> None:
    m = measure_trace(trace_of([1, 0, 7], complete=False))

    assert m.device.busy_share is None
    assert m.device.gaps.is_empty()
