from __future__ import annotations

import polars as pl
import pytest

from made_steps import steps
from made_traces import device, host, made_trace
from slowstep.analyses.device.launches import find_launches
from slowstep.analyses.events.tables import LAUNCHES
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.timeline.timeline import Timeline


def launches_of(trace: Timeline, window: pl.DataFrame) -> pl.DataFrame:
    return find_launches(trace, window, build_trace_ledger(trace, window)[1])


def launch(at: float, number: int, name: str = "cudaLaunchKernel", **more) -> dict:
    return host(name, at, at + 2, kind="runtime", correlation=number, **more)


def test_launches_by_step_with_delay_queue_and_short_kernels():
    hosts = [launch(0, 1), launch(10, 2), launch(100, 3), host("cudaStreamSynchronize", 40, 60, kind="runtime")]
    devices = [device("a", 10, 11, correlation=1), device("b", 20, 30, correlation=2), device("c", 104, 124, correlation=3)]

    found = launches_of(made_trace(hosts=hosts, devices=devices), steps((0, 100), (100, 200)))
    first, second = found.rows(named=True)

    assert found.schema == LAUNCHES.schema
    assert (first["kernels"], first["launches"], first["launch_ns"], first["short_kernels"]) == (2, 2, 4000, 1)
    assert first["median_delay_ns"] == 8000
    assert first["queue_depth"] == pytest.approx((8 + 8) / 100)
    assert first["queue_empty_share"] == pytest.approx(1 - (9 + 18) / 100)
    assert (second["kernels"], second["median_kernel_ns"]) == (1, 20_000)
    # Before, between and after the kernels, and before and after the one.
    assert (first["gaps"], first["gap_ns"]) == (3, 89_000)
    assert (second["gaps"], second["gap_ns"]) == (2, 80_000)


def test_a_kernel_that_waits_over_the_end_of_a_step_is_in_the_queue_of_both():
    trace = made_trace(hosts=[launch(48, 1)], devices=[device("a", 150, 160, correlation=1)])
    found = launches_of(trace, steps((0, 100), (100, 200)))
    assert found["queue_depth"].to_list() == pytest.approx([0.5, 0.5])
    assert found["queue_empty_share"].to_list() == pytest.approx([0.5, 0.4])


def test_the_launches_of_a_graph_are_one_and_its_kernels_many():
    hosts = [launch(0, 1, "cudaGraphLaunch_v10000")]
    devices = [device("a", 10 + n, 11 + n, correlation=1, from_graph=True) for n in range(5)]
    row = launches_of(made_trace(hosts=hosts, devices=devices), steps((0, 100))).row(0, named=True)
    assert (row["kernels"], row["launches"], row["graph_launches"], row["median_delay_ns"]) == (5, 1, 1, None)


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernel", "cuLaunchKernelEx", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "cudaLaunchKernelExC_v11060"]
)
def test_calls_that_launch_are_known_by_name(name):
    assert launches_of(made_trace(hosts=[launch(0, 1, name)]), steps((0, 100)))["launches"].to_list() == [1]


def test_without_calls_of_the_runtime_delay_and_queue_are_unknown():
    row = launches_of(made_trace(devices=[device("a", 10, 20)]), steps((0, 100))).row(0, named=True)
    assert (row["kernels"], row["launches"]) == (1, 0)
    assert [row[name] for name in ("median_delay_ns", "short_kernels", "queue_depth", "queue_empty_share")] == [None] * 4


def test_launches_belong_to_the_hosts_interval_of_a_step_and_kernels_to_the_devices():
    hosts, devices = [launch(10, 1), launch(110, 2)], [device("a", 120, 130, correlation=1), device("b", 220, 230, correlation=2)]
    found = launches_of(made_trace(hosts=hosts, devices=devices), steps((100, 200), (200, 300), behind=100))
    assert found.select("kernels", "launches").rows() == [(1, 1), (1, 1)]
