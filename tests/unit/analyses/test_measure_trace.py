from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import polars as pl
import pytest

from few import few
from made_traces import device, host, made_trace, step
from slowstep.analyses.measure_trace import measure_trace


def three_steps():
    hosts = [host("cudaLaunchKernel", at + 1, at + 2, "runtime", correlation=at) for at in (0, 100, 300)]
    devices = [device("gemm", at + 3, at + 90, correlation=at) for at in (0, 100, 300)]
    return made_trace(hosts=hosts, devices=devices, steps=[step(4, 0, 100), step(5, 100, 300), step(6, 300, 400)])


@pytest.mark.parametrize(("asked", "number"), few([("slowest", 5), ("median", 6), (6, 6)], every=3))
def test_a_step_that_was_chosen_is_one_of_all_that_the_trace_has(asked, number):
    every, m = measure_trace(three_steps()), measure_trace(three_steps(), step=asked)

    assert m.marks.table["number"].to_list() == [number]
    assert (m.marks.whole_steps, m.marks.is_chosen) == (3, True)
    assert (every.marks.whole_steps, every.marks.is_chosen) == (3, False)
    assert m.completeness == every.completeness
    note = m.marks.notes[-1]
    assert (note.code, note.values["steps"], note.values["number"]) == ("step-chosen", 3, number)


def test_the_device_that_is_named_is_the_one_whose_kernels_are_judged():
    made = made_trace(
        hosts=[host("aten::mm", 0, 5), host("cudaLaunchKernel", 1, 2, "runtime", correlation=7)],
        devices=[device("gemm", 3, 9, correlation=7, device=0), device("Memcpy HtoD", 0, 90, "h2d", device=1)],
        steps=[step(1, 0, 50), step(2, 50, 100)],
    )
    names = made.table("trace_devices").with_columns(pl.Series("name", ["computes", "copies"]))
    timeline = replace(made, tables={**made.tables, "trace_devices": names})

    assert measure_trace(timeline).device.name == "computes"


def test_a_settled_trace_is_let_go_of_at_once_and_not_when_the_collector_runs():
    hosts = [host("cudaLaunchKernel", at, at + 1, "runtime", correlation=at, thread=at % 2) for at in (2, 41)]
    devices = [device("gemm", at + 3, at + 30, correlation=at) for at in (2, 41)]
    timeline = made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 40), step(2, 40, 80)])
    gone = weakref.ref(timeline.tables["host_events"])
    gc.disable()
    try:
        m = measure_trace(timeline).settle()
        del timeline
        assert gone() is None
    finally:
        gc.enable()
    assert m.steps.count == 2
