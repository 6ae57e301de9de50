"""Which steps a trace has: marked, inferred, or the window as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from made_traces import device, host, made_trace, step
from slowstep.analyses.steps.marks import OF_OTHER_KINDS, OVERLAPPING, WITHOUT_LENGTH
from slowstep.analyses.steps.repetition import find_period
from slowstep.analyses.steps.trace_steps import (
    FILLS_THE_QUEUE,
    MOST_IN_CALL,
    NO_TIME,
    START_UP,
    STEPS_INFERRED,
    TAKEN_AS_ONE,
    find_trace_steps,
)
from slowstep.analyses.steps.whole_steps import (
    EVENTS_MISSING,
    FILE_CUT_OFF,
    LEFT_OUT,
    ONE_STEP_IS,
    ONLY_ONE_LEFT,
    PARTLY_RECORDED,
    STEPS_ARE,
)
from slowstep.timeline.timeline import Timeline


def launch(start: float, correlation: int) -> dict[str, Any]:
    return host("cudaLaunchKernel", start, start + 1, "runtime", correlation=correlation)


def bounds(trace: Timeline) -> list[tuple[int, float, float]]:
    steps, _ = find_trace_steps(trace)
    return [(r["number"], r["start_ns"] / 1000, r["end_ns"] / 1000) for r in steps.iter_rows(named=True)]


def steady(count: int, *, host_us: float, device_us: float) -> Timeline:
    """Steps of two kernels each; the host takes `host_us` a step, the device `device_us`."""
    hosts, devices, steps = [], [], []
    free = 0.0
    for n in range(count):
        at = n * host_us
        steps.append(step(n + 3, at, at + host_us - 1))
        for k in range(2):
            launched = at + 2 + 3 * k
            hosts.append(launch(launched, 2 * n + k))
            begun = max(launched + 2, free)
            free = begun + device_us / 2
            devices.append(device("k", begun, free, correlation=2 * n + k))
    return made_trace(hosts=hosts, devices=devices, steps=steps)


def test_where_the_device_waits_for_the_host_steps_begin_with_their_marks() -> None:
    assert bounds(steady(3, host_us=100, device_us=20)) == [(3, 0, 100), (4, 100, 200), (5, 200, 299)]


def test_where_the_host_runs_ahead_steps_are_as_long_as_the_device_takes() -> None:
    trace = steady(4, host_us=30, device_us=100)
    steps, notes = find_trace_steps(trace)
    # The first one begins with a queue that is empty, as far as the trace tells.
    assert (steps["end_ns"] - steps["start_ns"]).to_list() == [100_000] * 3
    assert steps["host_start_ns"].to_list() == [30_000, 60_000, 90_000]
    assert notes == (FILLS_THE_QUEUE(number=3),)


def test_work_from_before_the_trace_belongs_to_no_step() -> None:
    hosts = [launch(n * 30 + 2, n) for n in range(3)]
    devices = [device("older", 0, 50), *(device("k", 50 + n * 100, 150 + n * 100, correlation=n) for n in range(3))]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(n + 3, n * 30, n * 30 + 29) for n in range(3)])
    assert bounds(trace) == [(3, 50, 150), (4, 150, 250), (5, 250, 350)]


def test_a_last_mark_that_the_profiler_cut_off_is_left_out() -> None:
    hosts = [launch(at, n) for n, at in enumerate((5, 10, 105, 110))]
    devices = [device("k", row["start"] + 2, row["start"] + 4, correlation=n) for n, row in enumerate(hosts)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 99), step(2, 100, 199), step(3, 200, 203)])
    steps, notes = find_trace_steps(trace)
    assert steps["number"].to_list() == [1, 2]
    assert notes == (PARTLY_RECORDED(number=3, end="last"),)


def test_the_last_step_of_a_file_that_was_cut_off_is_left_out() -> None:
    hosts = [host("aten::mm", at, at + 5) for at in (10, 110)]
    steps, notes = find_trace_steps(made_trace(hosts=hosts, steps=[step(1, 0, 99), step(2, 100, 199)], complete=False))
    assert steps["number"].to_list() == [1]
    assert notes == (
        LEFT_OUT(steps=ONE_STEP_IS(number=2), why=FILE_CUT_OFF()),
        ONLY_ONE_LEFT(number=1),
    )


def test_of_a_file_that_was_cut_off_steps_that_lack_a_part_are_left_out() -> None:
    held = {3: 20, 4: 20, 5: 14, 6: 20, 7: 0, 8: 20}
    hosts = [host("aten::mm", 100 * number + 4 * at, 100 * number + 4 * at + 2) for number, count in held.items() for at in range(count)]
    marks = [step(number, 100 * number, 100 * number + 99) for number in held]
    cut, notes = find_trace_steps(made_trace(hosts=hosts, steps=marks, complete=False))
    whole, _ = find_trace_steps(made_trace(hosts=hosts, steps=marks))
    assert cut["number"].to_list() == [3, 4, 6]
    assert notes == (
        LEFT_OUT(steps=ONE_STEP_IS(number=8), why=FILE_CUT_OFF()),
        LEFT_OUT(steps=STEPS_ARE(numbers="5", last=7), why=EVENTS_MISSING()),
    )
    assert (cut["end_ns"] - cut["start_ns"]).max() == 100_000
    # Of a file that is whole, such a step is a shorter one.
    assert whole["number"].to_list() == [3, 4, 5, 6, 7, 8]


def test_marks_of_a_second_thread_and_around_others_do_not_count_twice() -> None:
    hosts = [host("aten::mm", at, at + 5) for at in (10, 110)]
    steps = [step(1, 0, 100), step(2, 100, 200), step(1, 3, 100, thread=1), step(0, 0, 220, mark="NVTX")]
    found, notes = find_trace_steps(made_trace(hosts=hosts, steps=steps))
    assert found.select("number", "thread", "mark").rows() == [(1, 0, "ProfilerStep"), (2, 0, "ProfilerStep")]
    assert notes == (OF_OTHER_KINDS(marks=2),)


def test_a_mark_around_several_others_is_an_epoch() -> None:
    hosts = [host("aten::mm", at, at + 5) for at in (10, 110)]
    steps = [step(1, 0, 100), step(2, 100, 200), step(0, 0, 220)]
    found, notes = find_trace_steps(made_trace(hosts=hosts, steps=steps))
    assert found["number"].to_list() == [1, 2]
    assert notes == (OVERLAPPING(marks=1),)


def test_what_was_not_recorded_between_two_steps_is_in_none() -> None:
    hosts = [host("aten::mm", at, at + 5) for at in (10, 110, 510)]
    trace = made_trace(hosts=hosts, steps=[step(1, 0, 90), step(2, 100, 190), step(9, 500, 590)])
    assert bounds(trace) == [(1, 0, 100), (2, 100, 190), (9, 500, 590)]


def test_steps_of_no_length_are_left_out_and_said() -> None:
    hosts = [host("aten::mm", 10, 15)]
    steps, notes = find_trace_steps(made_trace(hosts=hosts, steps=[step(1, 0, 100), step(2, 100, 100)]))
    assert steps["number"].to_list() == [1]
    assert notes == (WITHOUT_LENGTH(marks=1),)


def test_without_marks_the_optimizers_calls_end_steps() -> None:
    hosts = [host("Optimizer.step#SGD.step", 100 * n + 80, 100 * n + 90, "annotation") for n in range(4)]
    hosts += [host("aten::mm", 100 * n + 10, 100 * n + 20) for n in range(4)]
    steps, notes = find_trace_steps(made_trace(hosts=hosts))
    assert steps.select("start_ns", "end_ns", "mark").rows() == [
        (90_000 + n * 100_000, 190_000 + n * 100_000, "inferred") for n in range(3)
    ]
    assert notes == (STEPS_INFERRED(source="the ends of Optimizer.step#SGD.step"),)


def test_without_ranges_the_period_of_the_launches_makes_steps() -> None:
    names = ["embed", *(["layer_a", "layer_b"] * 6), "loss", *(["layer_bwd", "layer_wgrad"] * 6), "multi_tensor_apply_kernel"]
    hosts, devices = [], []
    for n in range(5 * len(names)):
        at = 10 * n + 100 * (n // len(names))
        hosts.append(launch(at, n))
        devices.append(device(names[n % len(names)], at + 5, at + 8, correlation=n))
    steps, notes = find_trace_steps(made_trace(hosts=hosts, devices=devices))
    assert set((steps["end_ns"] - steps["start_ns"]).to_list()) == {(10 * len(names) + 100) * 1000}
    assert steps["mark"].unique().to_list() == ["inferred"]
    # It begins where the host waits longest.
    assert steps["host_start_ns"][0] % ((10 * len(names) + 100) * 1000) == 0
    assert notes == (STEPS_INFERRED(source="the period of the kernels that are launched"),)


def test_what_repeats_in_an_inference_is_no_step() -> None:
    hosts = [launch(10 * n, n) for n in range(60)]
    devices = [device(f"kernel_{n % 6}", 10 * n + 5, 10 * n + 8, correlation=n) for n in range(60)]
    steps, notes = find_trace_steps(made_trace(hosts=hosts, devices=devices))
    assert steps.select("start_ns", "end_ns", "mark").rows() == [(5_000, 598_000, "window")]
    assert notes[0] == TAKEN_AS_ONE()


def test_a_trace_without_steps_begins_with_the_devices_first_work_and_says_what_came_before() -> None:
    hosts = [host("aten::to", 0, 300), host("cudaDeviceGetStreamPriorityRange", 10, 290, "runtime"), launch(296, 1), launch(350, 2)]
    devices = [device("gemm", 300, 340, correlation=1), device("gemm", 360, 390, correlation=2)]

    steps, notes = find_trace_steps(made_trace(hosts=[*hosts, host("cudaFree", 390, 400, "runtime")], devices=devices))

    assert steps.select("start_ns", "host_start_ns", "end_ns").rows() == [(300_000, 296_000, 400_000)]
    assert notes[1] == START_UP(ns=300_000, share=0.75, most=MOST_IN_CALL(call="cudaDeviceGetStreamPriorityRange"))


def test_a_trace_without_a_device_begins_with_its_first_event() -> None:
    steps, notes = find_trace_steps(made_trace(hosts=[host("aten::mm", 5, 10), host("aten::mm", 20, 30)]))

    assert steps.select("start_ns", "end_ns").rows() == [(5_000, 30_000)]
    assert len(notes) == 1


def test_a_layer_is_no_period_of_the_whole() -> None:
    one = [1, 2, 3, 4, 5] * 8 + [6, 7] + [8, 9, 10, 11, 12] * 8 + [13]
    assert find_period(np.array(one * 6)) == len(one)


def test_random_names_have_no_period() -> None:
    assert find_period(np.random.default_rng(1).integers(0, 40, 500)) is None


def test_one_kernel_is_one_step() -> None:
    assert bounds(made_trace(devices=[device("k", 5, 9)])) == [(0, 5, 9)]


def test_an_empty_trace_has_no_steps() -> None:
    steps, notes = find_trace_steps(made_trace())
    assert steps.is_empty()
    assert notes == (NO_TIME(),)


def test_a_step_lasts_until_all_that_it_launched_is_done() -> None:
    hosts = [launch(1, 1), launch(5, 2), launch(105, 3)]
    devices = [device("long", 3, 150, correlation=1), device("short", 7, 9, stream=8, correlation=2), device("k", 150, 190, correlation=3)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 100), step(2, 100, 195)])
    assert bounds(trace) == [(1, 0, 150), (2, 150, 195)]
