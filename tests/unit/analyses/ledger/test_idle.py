"""To whom an idle device is charged."""

from __future__ import annotations

from typing import Any

import pytest

from made_parts import us_of
from made_traces import device, host, made_trace, step
from slowstep.analyses.events.parts import KERNELS
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.part_words import part_in_words
from slowstep.timeline.timeline import Timeline

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def launch(start: float, correlation: int, thread: int = 0) -> dict[str, Any]:
    return host("cudaLaunchKernel", start, start + 10, "runtime", correlation=correlation, thread=thread)


def charged(trace: Timeline) -> dict[tuple[str, str], float]:
    """Microseconds by stage and part, kernels left out."""
    ledger, _ = build_trace_ledger(trace, find_trace_steps(trace)[0])
    return {(part.stage, part_in_words(part)): us for part, us in us_of(ledger).items() if part != KERNELS}


def two_kernels(*between: dict[str, Any], launched: float = 200, more: tuple[dict[str, Any], ...] = (), **facts: Any) -> Timeline:
    """Kernels from 20 to 100 and from 220 to 300, of one step from 0 to 300; the second is launched at `launched`."""
    hosts = [launch(0, 1), launch(launched, 2), *between]
    devices = [device("a", 0, 100, correlation=1), device("b", 220, 300, correlation=2), *more]
    return made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 300)], **facts)


def test_unnamed_host_time_is_launch() -> None:
    assert charged(two_kernels()) == {("compute", "launch"): 120}


def test_a_wait_for_input_is_the_inputs() -> None:
    assert charged(two_kernels(host(LOADER, 50, 150, "annotation"))) == {
        ("preprocess", "waiting for input"): 50,
        ("compute", "launch"): 70,
    }


def test_a_call_that_waited_for_the_device_lets_it_run_dry() -> None:
    wait = host("cudaStreamSynchronize", 50, 110, "runtime")
    assert charged(two_kernels(wait)) == {("d2h", "device idle after cudaStreamSynchronize"): 120}


def test_the_line_of_the_waiting_call_stands_in_the_part() -> None:
    wait = host("cudaStreamSynchronize", 50, 110, "runtime")
    function = host("train.py(30): main", 0, 300, "python")
    assert charged(two_kernels(wait, function)) == {("d2h", "device idle after cudaStreamSynchronize in main (train.py:30)"): 120}


def test_a_call_on_a_device_that_was_idle_already_waited_for_nothing() -> None:
    wait = host("cudaEventSynchronize", 120, 125, "runtime")
    assert charged(two_kernels(wait)) == {("compute", "launch"): 120}


def test_named_ranges_after_a_waiting_call_keep_their_stage() -> None:
    wait, save = host("cudaStreamSynchronize", 50, 110, "runtime"), host("save_checkpoint", 120, 160, "annotation")
    assert charged(two_kernels(wait, save)) == {
        ("d2h", "device idle after cudaStreamSynchronize"): 80,
        ("store", "save_checkpoint"): 40,
    }


def test_of_ranges_inside_each_other_the_innermost_counts() -> None:
    callback, save = host("[Callback]Saver.on_train_batch_end", 90, 190, "annotation"), host("save_checkpoint", 120, 160, "annotation")
    assert charged(two_kernels(callback, save)) == {
        ("output", "[Callback]Saver.on_train_batch_end"): 50,
        ("store", "save_checkpoint"): 40,
        ("compute", "launch"): 30,
    }


def test_what_the_host_does_after_the_launch_delays_nothing() -> None:
    assert charged(two_kernels(host(LOADER, 40, 300, "annotation"), launched=20)) == {("compute", "launch"): 120}


def test_work_without_a_launch_in_the_trace_is_unattributed() -> None:
    devices = [device("a", 0, 100), device("b", 220, 300)]
    trace = made_trace(hosts=[host(LOADER, 50, 150, "annotation")], devices=devices, steps=[step(1, 0, 300)])
    assert charged(trace) == {("unattributed", "idle before work whose launch is not in the trace"): 120}


def test_a_trace_without_host_events_has_no_causes() -> None:
    trace = made_trace(devices=[device("a", 0, 100), device("b", 220, 300)])
    assert charged(trace) == {("unattributed", "idle before work whose launch is not in the trace"): 120}


def test_autograds_thread_is_filled_by_the_training_thread() -> None:
    hosts = [
        launch(0, 1),
        host("cudaStreamSynchronize", 50, 110, "runtime"),
        launch(200, 2, thread=1),
        host(LOADER, 120, 150, "annotation"),
    ]
    devices = [device("a", 0, 100, correlation=1), device("b", 220, 300, correlation=2)]
    assert charged(made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 300)])) == {
        ("d2h", "device idle after cudaStreamSynchronize"): 90,
        ("preprocess", "waiting for input"): 30,
    }


def test_a_busy_thread_is_its_own_cause() -> None:
    hosts = [launch(0, 1), launch(200, 2, thread=1), host(LOADER, 50, 190, "annotation"), host("aten::mm", 90, 210, thread=1)]
    devices = [device("a", 0, 100, correlation=1), device("b", 220, 300, correlation=2)]
    assert charged(made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 300)])) == {("compute", "launch"): 120}


def test_after_the_last_work_only_what_is_seen_is_named() -> None:
    trace = made_trace(
        hosts=[launch(0, 1), host("save_checkpoint", 150, 250, "annotation")],
        devices=[device("a", 0, 100, correlation=1)],
        steps=[step(1, 0, 300)],
    )
    assert charged(trace) == {("store", "save_checkpoint"): 100, ("unattributed", "nothing recorded"): 100}


def test_a_blocking_copy_to_pageable_memory_waits() -> None:
    hosts = [launch(0, 1), host("cudaMemcpyAsync", 40, 125, "runtime", correlation=3), launch(200, 2)]
    devices = [
        device("a", 0, 100, correlation=1),
        device("Memcpy DtoH", 100, 120, "d2h", correlation=3, pageable=True),
        device("b", 220, 300, correlation=2),
    ]
    assert charged(made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 300)])) == {
        ("d2h", "exposed copies"): 20,
        ("d2h", "device idle after cudaMemcpyAsync"): 100,
    }


def test_of_several_devices_the_one_with_most_kernel_time_is_judged() -> None:
    other = device("c", 0, 40, device=1, correlation=9)
    assert charged(two_kernels(more=(other,))) == {("compute", "launch"): 120}


def test_a_collective_beside_a_kernel_is_overlapped_and_alone_exposed() -> None:
    trace = two_kernels(more=(device("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 60, 140, stream=9, correlation=1),))
    assert charged(trace) == {("gradient_sharing", "exposed collectives"): 40, ("compute", "launch"): 80}


def test_a_gap_has_its_call_operator_and_place() -> None:
    between = [host("train.py(12): main", 0, 300, "python"), host("aten::mm", 95, 215), host("cudaMalloc", 110, 180, "runtime")]
    trace = two_kernels(*between)
    _, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])
    row = gaps.row(0, named=True)
    assert (row["call"], row["operator"], row["where"], row["between_steps"], row["thread"]) == (
        "cudaMalloc",
        "aten::mm",
        "main (train.py:12)",
        False,
        0,
    )


def test_a_gap_between_two_steps_is_said_to_be_one_in_both() -> None:
    hosts = [launch(0, 1), launch(200, 2)]
    devices = [device("a", 0, 100, correlation=1), device("b", 220, 300, correlation=2)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 150), step(2, 150, 300)])
    _, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])
    assert gaps.select("step", "gap", "start_ns", "end_ns", "between_steps").rows() == [
        (0, 0, 100_000, 150_000, True),
        (1, 0, 150_000, 220_000, True),
    ]


@pytest.mark.parametrize(
    "name", ["autograd::engine::evaluate_function: MmBackward0", "## forward ##", "activation_checkpoint", "aten::data_loader"]
)
def test_other_names_tell_no_stage(name: str) -> None:
    assert charged(two_kernels(host(name, 100, 190, "annotation"))) == {("compute", "launch"): 120}


@pytest.mark.parametrize(
    ("name", "kind", "stage"),
    [
        ("## load_batch ##", "annotation", "preprocess"),
        ("[_TrainingEpochLoop].train_dataloader_next", "annotation", "preprocess"),
        ("Iterator::Root::Prefetch", "annotation", "preprocess"),
        ("torch/utils/data/dataloader.py(701): __next__", "python", "preprocess"),
        ("torch/serialization.py(944): save", "python", "store"),
        ("validation", "annotation", "output"),
        ("## metrics:publish ##", "annotation", "output"),
    ],
)
def test_names_that_tell_a_stage(name: str, kind: str, stage: str) -> None:
    found = charged(two_kernels(host(name, 100, 190, kind)))
    assert {of: us for (of, _), us in found.items()} == {stage: 90, "compute": 30}


def on_two_threads(*more: dict[str, Any]) -> Timeline:
    devices = [device("a", 0, 100, correlation=1), device("b", 220, 300, correlation=2)]
    return made_trace(hosts=[launch(0, 1), launch(200, 2, thread=1), *more], devices=devices, steps=[step(1, 0, 300)])


def test_a_wait_of_the_training_thread_is_no_cause_while_the_launching_thread_works() -> None:
    wait, work = host("cudaStreamSynchronize", 50, 110, "runtime"), host("aten::mm", 90, 210, thread=1)
    assert charged(on_two_threads(wait, work)) == {("compute", "launch"): 120}


def test_python_functions_make_no_thread_busy() -> None:
    frame = host("threading.py(973): _bootstrap", 0, 300, "python", thread=1)
    assert charged(on_two_threads(frame, host(LOADER, 120, 150, "annotation"))) == {
        ("preprocess", "waiting for input"): 30,
        ("compute", "launch"): 90,
    }


def test_of_waiting_calls_inside_each_other_the_outer_one_is_named() -> None:
    waits = [host("cudaStreamSynchronize", 50, 112, "runtime"), host("cuStreamSynchronize", 55, 110, "driver")]
    assert charged(two_kernels(*waits)) == {("d2h", "device idle after cudaStreamSynchronize"): 120}


def first_gap(trace: Timeline) -> dict[str, Any]:
    return build_trace_ledger(trace, find_trace_steps(trace)[0])[1].row(0, named=True)


def test_a_gap_after_its_launch_has_the_operator_that_launched() -> None:
    found = first_gap(two_kernels(host("aten::add", 15, 35), host("aten::mm", 60, 290), launched=20))
    assert (found["call"], found["operator"]) == (None, "aten::add")


def test_a_gap_that_a_waiting_call_made_has_that_calls_operator() -> None:
    found = first_gap(
        two_kernels(host("aten::item", 45, 112), host("cudaStreamSynchronize", 50, 110, "runtime"), host("aten::mm", 113, 199))
    )
    assert (found["call"], found["operator"], found["thread"]) == ("cudaStreamSynchronize", "aten::item", 0)


def test_a_gap_that_begins_with_a_step_is_between_steps() -> None:
    hosts = [launch(0, 1), launch(200, 2)]
    devices = [device("a", 0, 100, correlation=1), device("b", 220, 300, correlation=2)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 100), step(2, 100, 300)])
    assert first_gap(trace)["between_steps"]


def test_a_collective_is_known_by_what_the_trace_says_of_it() -> None:
    trace = two_kernels(more=(device("a_custom_kernel", 100, 140, stream=9, correlation=1, collective="allreduce"),))
    assert charged(trace) == {("gradient_sharing", "exposed collectives"): 40, ("compute", "launch"): 80}


@pytest.mark.parametrize(("kind", "part"), [("h2d", ("d2h", "device idle after hipMemcpyWithStream")), ("d2d", ("compute", "launch"))])
def test_a_copy_waits_by_its_name_where_it_leaves_the_device(kind: str, part: tuple[str, str]) -> None:
    trace = two_kernels(
        host("hipMemcpyWithStream", 40, 130, "runtime", correlation=3), more=(device("copy", 100, 120, kind, correlation=3),)
    )
    assert charged(trace)[part] == 100
