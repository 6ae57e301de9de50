from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from made_parts import dry_part
from made_traces import device, host, made_trace, step
from slowstep.analyses.events.parts import parts_of
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps

READ_BACK = ("d2h", "device idle after cudaStreamSynchronize")


def idle_after_a_wait(*work: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Stage, `operator` or `call`, and length of the stretches of a gap from 100 to 5000 us, in which the host waited until 110."""
    launches = [host("cudaLaunchKernel", at, at + 10, "runtime", correlation=n) for n, at in ((1, 0), (2, 4990))]
    wait = host("cudaStreamSynchronize", 50, 110, "runtime")
    devices = [device("a", 0, 100, correlation=1), device("b", 5000, 5100, correlation=2)]
    trace = made_trace(hosts=[*launches, wait, *work], devices=devices, steps=[step(1, 0, 5100)])
    _, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])
    rows = gaps.with_columns(us=(pl.col("end_ns") - pl.col("start_ns")) / 1000, what=pl.coalesce("operator", "call"))
    return list(rows.select("stage", "what", "us").iter_rows())


@pytest.mark.parametrize(
    "work",
    [
        host("aten::sort", 1000, 3000),
        host("cudaFree", 1000, 3000, "runtime"),
        host("cudaMalloc", 1000, 3000, "runtime"),
        host("_compile.compile_inner (dynamo_timed)", 1000, 3000),
    ],
    ids=lambda row: row["name"],
)
def test_what_holds_the_host_after_a_wait_is_not_the_waits(work: dict[str, Any]) -> None:
    stretches = idle_after_a_wait(work)

    assert [(stage, us) for stage, _, us in stretches] == [("d2h", 900), ("compute", 2000), ("d2h", 2000)]
    assert stretches[1][1] == work["name"]


@pytest.mark.parametrize(
    "work",
    [
        (host("aten::sort", 1000, 1900),),
        (host("aten::mm", 1000, 3000), host("cudaLaunchKernel", 1500, 1510, "runtime")),
        (host("aten::item", 1000, 3000), host("cudaStreamSynchronize", 1500, 2900, "runtime")),
        (host("aten::view", 1000, 3000),),
    ],
    ids=["short", "launches", "waits", "computes nothing"],
)
def test_operators_that_launch_wait_or_hardly_take_time_leave_the_wait_its_gap(work: tuple[dict[str, Any], ...]) -> None:
    assert {stage for stage, _, _ in idle_after_a_wait(*work)} == {"d2h"}


def test_a_free_in_which_the_device_ran_dry_keeps_what_follows() -> None:
    launches = [host("cudaLaunchKernel", at, at + 10, "runtime", correlation=n) for n, at in ((1, 0), (2, 4990))]
    devices = [device("a", 0, 100, correlation=1), device("b", 5000, 5100, correlation=2)]
    trace = made_trace(hosts=[*launches, host("cudaFree", 50, 3000, "runtime")], devices=devices, steps=[step(1, 0, 5100)])

    _, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])

    assert parts_of(gaps) == [dry_part("cudaFree")]
