from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from made_parts import us_of
from made_traces import device, host, made_trace, step
from slowstep.analyses.ledger.stage_ranges import stage_ranges
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.part_words import part_in_words
from slowstep.timeline.timeline import Timeline

# Two steps of 10 ms: a kernel each for forward, backward and update, all launched by 0.31 ms; a call waits for them until 2 ms.
READ_BACK = "device idle after cudaStreamSynchronize"


def training(
    *more: dict[str, Any],
    works: tuple[dict[str, Any], ...] = (),
    kernels: int = 0,
    optimizer: bool = True,
    marked: bool = True,
    **facts: Any,
) -> Timeline:
    """`more` host events, in the first step and again in the second; in it `kernels` are launched from 2.5 ms on, one each 10 us."""
    hosts: list[dict[str, Any]] = []
    devices: list[dict[str, Any]] = list(works)
    number = 0

    def launch(at: float, begin: float, end: float) -> None:
        nonlocal number
        number += 1
        hosts.append(host("cudaLaunchKernel", at, at + 5, "runtime", correlation=number))
        devices.append(device("kernel", begin, end, correlation=number))

    for first in (0, 10_000):
        hosts.append(host("aten::mm", first, first + 20))
        launch(first + 2, first + 10, first + 500)
        hosts.append(host("autograd::engine::evaluate_function: MmBackward0", first + 120, first + 220))
        launch(first + 125, first + 500, first + 1000)
        if optimizer:
            hosts.append(host("Optimizer.step#SGD.step", first + 300, first + 320, "annotation"))
        launch(first + 305, first + 1000, first + 1990)
        hosts.append(host("cudaStreamSynchronize", first + 330, first + 2000, "runtime"))
        for extra in range(kernels):
            launch(first + 2500 + 10 * extra, first + 2510 + 10 * extra, first + 2512 + 10 * extra)
        hosts += [row | {"start": row["start"] + first, "end": row["end"] + first} for row in more]
    steps = [step(0, 0, 10_000), step(1, 10_000, 20_000)] if marked else []
    return made_trace(hosts=hosts, devices=devices, steps=steps, **({"tells_users_names": True} | facts))


def named(trace: Timeline) -> list[str]:
    """The parts of output that ranges have, in order of time, of the first step."""
    return stage_ranges(trace).filter((pl.col("stage") == "output") & (pl.col("start_ns") < 10_000_000))["range"].to_list()


def charged(trace: Timeline) -> dict[tuple[str, str], float]:
    """Microseconds of idle time of both steps, by stage and part."""
    _, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])
    idle = us_of(gaps.with_columns(ns=pl.col("end_ns") - pl.col("start_ns")))
    return {(part.stage, part_in_words(part)): us for part, us in idle.items()}


def test_a_named_range_after_a_read_back_is_output_and_the_rest_the_read_backs() -> None:
    idle = charged(training(host("save_images", 2100, 9000, "annotation")))

    assert idle[("output", "save_images")] == 13_800
    assert idle[("d2h", READ_BACK)] == pytest.approx(2 * (10 + 100 + 1000) + 10)


def test_an_unnamed_gap_after_a_read_back_stays_the_read_backs() -> None:
    assert set(charged(training())) == {("d2h", READ_BACK), ("compute", "launch")}


def test_a_function_of_the_script_after_the_update_is_named_with_its_line_and_outermost() -> None:
    outer, inner = host("train.py(143): save_masks", 2100, 9000, "python"), host("train.py(9): crop", 3000, 4000, "python")
    assert named(training(outer, inner)) == ["save_masks (train.py:143)"]


def test_a_function_that_loads_a_batch_or_runs_before_the_kernels_is_no_output() -> None:
    assert named(training(host("train.py(20): load_batch", 2100, 9000, "python"))) == []
    assert named(training(host("train.py(20): collect", 0, 1, "python"))) == []


def test_of_a_range_inside_a_named_one_the_stage_counts() -> None:
    idle = charged(training(host("save_images", 2100, 9000, "annotation"), host("save_checkpoint", 3000, 4000, "annotation")))
    assert (idle[("output", "save_images")], idle[("store", "save_checkpoint")]) == (11_800, 2_000)


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#3",
        "Optimizer.zero_grad#SGD.zero_grad",
        "## sparse_data_dist ##",
        "## all2all_data:lengths ##",
        "nccl:all_reduce",
        "FSDP::pre_forward",
        "DistributedDataParallel.forward",
        "Torch-Compiled Region: 0/0",
        "_compile.compile_inner (dynamo_timed)",
        "clip_grad_norm",
    ],
)
def test_what_frameworks_write_around_their_own_work_is_named_by_nobody(name: str) -> None:
    assert named(training(host(name, 2100, 9000, "annotation"))) == []


@pytest.mark.parametrize(("start", "end"), [(-5, 9990), (0, 400), (110, 9000), (250, 9000)], ids=["step", "all", "backward", "update"])
def test_ranges_around_the_models_own_launches_are_not_beside_it(start: float, end: float) -> None:
    assert named(training(host("train_batch", start, end, "annotation"))) == []


def test_a_range_that_is_there_for_what_it_launches_is_not_the_hosts_work() -> None:
    sample = host("sample_images", 2100, 9000, "annotation")

    assert named(training(sample, kernels=6)) == ["sample_images"]
    assert named(training(sample, kernels=8)) == []


def test_what_copies_to_the_device_brings_input() -> None:
    call, copy = host("cudaMemcpyAsync", 3000, 3010, "runtime", correlation=99), device("Memcpy", 3000, 3010, "h2d", correlation=99)
    ranges = host("to_device", 2100, 9000, "annotation")

    assert named(training(ranges)) == ["to_device"]
    assert named(training(ranges, call, works=(copy,))) == []


def test_between_an_update_and_the_next_kernel_no_mark_is_needed() -> None:
    assert named(training(host("save_images", 2100, 9000, "annotation"), marked=False)) == ["save_images"]


def test_without_an_optimizers_range_the_steps_last_kernel_ends_the_model() -> None:
    assert named(training(host("save_images", 2100, 9000, "annotation"), optimizer=False)) == ["save_images"]


def test_amid_the_models_launches_a_range_must_work_for_a_millisecond_and_launch_nothing() -> None:
    def amid(length: float, *more: dict[str, Any]) -> list[str]:
        hosts = [host("cudaLaunchKernel", at, at + 5, "runtime", correlation=n) for n, at in ((1, 2), (2, 5000))]
        devices = [device("kernel", 10, 100, correlation=1), device("kernel", 5010, 5100, correlation=2)]
        draw = host("draw", 500, 500 + length, "annotation")
        return named(made_trace(hosts=[*hosts, draw, *more], devices=devices, steps=[step(0, 0, 6000)], tells_users_names=True))

    assert amid(1500) == ["draw"]
    assert amid(900) == []
    assert amid(1500, host("cudaStreamSynchronize", 600, 1500, "runtime")) == []
    assert amid(1500, host("## forward ##", 1, 5900, "annotation")) == []
    assert amid(1500, host("nn.Module: Net_0", 1, 5900, "python")) == []


def test_traces_that_mix_the_users_names_with_the_frameworks_tell_none() -> None:
    assert named(training(host("save_images", 2100, 9000, "annotation"), tells_users_names=False)) == []


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("make_batch", "preprocess"),
        ("tokenize", "preprocess"),
        ("env_step", "preprocess"),
        ("save_images", "output"),
        ("write_report", "output"),
    ],
)
def test_between_an_update_and_the_next_steps_kernels_names_tell_input_from_output(name: str, stage: str) -> None:
    ranges = stage_ranges(training(host(name, 3000, 6000, "annotation"), marked=False))

    assert ranges["stage"].unique().to_list() == [stage]


def test_after_the_update_of_a_marked_step_no_input_is_made() -> None:
    assert named(training(host("decode_predictions", 3000, 6000, "annotation"))) == ["decode_predictions"]
