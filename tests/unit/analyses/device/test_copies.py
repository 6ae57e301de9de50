from __future__ import annotations

import polars as pl
import pytest

from made_measured_traces import measured_table
from made_parts import dry_part
from made_steps import steps
from made_traces import device, host, made_trace
from slowstep.analyses.device.copies import find_copies
from slowstep.analyses.device.synchronizations import find_synchronizations
from slowstep.analyses.events.parts import LAUNCH
from slowstep.analyses.events.tables import COPIES, GAPS, SYNCHRONIZATIONS

STEPS = steps((0, 1000), (1000, 2000))


def copy(at: float, number: int, kind: str, *, wait: float = 0, line: int = 3, call: str = "cudaMemcpyAsync", **more) -> tuple[list, list]:
    """A copy of 10 us by `aten::to`, that waits for it in a call of the given length where one is given."""
    hosts = [
        host("aten::to", at, at + 40, stack=f"net.py({line}): forward"),
        host("aten::copy_", at + 1, at + 39),
        host(call, at + 2, at + 5, kind="runtime", correlation=number),
    ]
    if wait:
        hosts.append(host("cudaStreamSynchronize", at + 6, at + 6 + wait, kind="runtime", correlation=number + 1000))
    return hosts, [device(f"Memcpy {kind}", at + 10, at + 20, kind=kind, correlation=number, **({"bytes": 1000} | more))]


def kernel(at: float, number: int, ns: float = 10) -> tuple[list, list]:
    return [host("cudaLaunchKernel", at, at + 1, kind="runtime", correlation=number)], [
        device("k", at + 2, at + 2 + ns, correlation=number)
    ]


def a_trace(*parts: tuple[list, list]):
    return made_trace(hosts=[row for hosts, _ in parts for row in hosts], devices=[row for _, rows in parts for row in rows])


def test_copies_of_one_place_are_one_row_with_bytes_and_speed():
    found = find_copies(a_trace(copy(0, 1, "h2d", pageable=True), copy(1100, 2, "h2d", pageable=True)), STEPS)
    row = found.row(0, named=True)

    assert found.schema == COPIES.schema
    assert (row["kind"], row["operator"], row["where"], row["count"], row["steps"]) == ("h2d", "aten::to", "forward (net.py:3)", 2, 2)
    assert (row["bytes"], row["total_ns"], row["exposed_ns"], row["pageable"], row["blocking"]) == (2000, 20_000, 20_000, True, False)
    assert row["gb_per_s"] == pytest.approx(0.1)


def test_bytes_that_are_not_in_the_trace_are_unknown():
    row = find_copies(a_trace(copy(0, 1, "h2d", bytes=None)), STEPS).row(0, named=True)
    assert (row["bytes"], row["gb_per_s"]) == (None, None)


@pytest.mark.parametrize(
    ("kind", "other", "other_kind", "exposed_us"),
    [
        ("h2d", "k", "kernel", 6),
        ("h2d", "ncclDevKernel_AllReduce_Sum_f32", "kernel", 6),
        ("h2d", "Memset", "memset", 6),
        ("h2d", "Memcpy", "d2h", 10),
        ("d2h", "Memcpy", "h2d", 6),
        ("d2h", "k", "kernel", 6),
        ("d2d", "k", "kernel", 6),
        ("d2d", "ncclDevKernel_AllReduce_Sum_f32", "kernel", 10),
    ],
)
def test_a_copy_is_exposed_while_nothing_of_higher_rank_runs(kind, other, other_kind, exposed_us):
    devices = [
        device("Memcpy", 10, 20, kind=kind),
        device(other, 0, 12, kind=other_kind, stream=8),
        device(other, 18, 30, kind=other_kind, stream=9),
        device(other, 10, 20, kind=other_kind, device=1),
    ]
    found = find_copies(made_trace(devices=devices), STEPS).filter(pl.col("kind") == kind)
    (row,) = found.filter(pl.col("count") == 1).rows(named=True)
    assert (row["exposed_ns"], row["overlapped_ns"]) == (exposed_us * 1000, row["total_ns"] - exposed_us * 1000)


@pytest.mark.parametrize(
    ("part", "blocking"),
    [
        (copy(0, 1, "d2h", pageable=True), True),
        (copy(0, 1, "d2h", pageable=False), False),
        (copy(0, 1, "d2h", pageable=False, wait=20), True),
        (copy(0, 1, "h2d", pageable=True), False),
        (copy(0, 1, "h2d", pageable=True, wait=20), True),
        (copy(0, 1, "h2d", pageable=True, call="cudaMemcpy_v3020"), True),
        (copy(0, 1, "h2d", pageable=True, call="hipMemcpyWithStream"), True),
    ],
)
def test_a_copy_blocks_where_its_call_or_one_of_the_same_operator_waits(part, blocking):
    assert find_copies(a_trace(part), STEPS)["blocking"].to_list() == [blocking]


def test_a_wait_of_another_operator_is_not_for_the_copy():
    late = ([host("aten::item", 60, 90), host("cudaStreamSynchronize", 70, 80, kind="runtime")], [])
    assert find_copies(a_trace(copy(0, 1, "h2d"), late), STEPS)["blocking"].to_list() == [False]


@pytest.mark.parametrize(("between", "blocking"), [("cudaGetLastError", True), ("cudaLaunchKernel", False)])
def test_without_operators_the_next_call_that_does_anything_decides(between, blocking):
    hosts = [
        host("cudaMemcpyAsync", 0, 5, kind="runtime", correlation=1),
        host(between, 6, 7, kind="runtime"),
        host("cudaStreamSynchronize", 8, 30, kind="runtime"),
    ]
    found = find_copies(made_trace(hosts=hosts, devices=[device("Memcpy", 6, 20, kind="d2h", correlation=1)]), STEPS)
    assert found["blocking"].to_list() == [blocking]


def test_the_same_copy_in_every_step_is_repeated_and_the_input_is_not():
    parts = []
    for step in (0, 1):
        at = 1000 * step
        parts += [copy(at, 10 * step + 1, "h2d", line=1, bytes=10**6), copy(at + 50, 10 * step + 2, "h2d", line=2, bytes=64)]
        parts += [kernel(at + 100, 10 * step + 3), copy(at + 200, 10 * step + 4, "h2d", line=8, bytes=4096)]
        parts += [copy(at + 300, 10 * step + 5, "h2d", line=9, bytes=500 + step), copy(at + 400, 10 * step + 6, "d2h", line=10)]

    found = find_copies(a_trace(*parts), STEPS)

    assert found.filter("repeated")["where"].to_list() == ["forward (net.py:8)"]
    # One step is no repetition, and a copy that misses in a step is none.
    assert not find_copies(a_trace(*parts), steps((0, 1000)))["repeated"].any()
    assert not find_copies(a_trace(*parts), steps((0, 1000), (1000, 2000), (2000, 3000)))["repeated"].any()


def test_copies_belong_to_the_step_that_asked_for_them():
    parts = [copy(50, 1, "h2d"), copy(150, 2, "h2d")]
    found = find_copies(a_trace(*parts), steps((0, 200), (200, 400), behind=100))
    assert found.select("count", "steps").rows() == [(2, 2)]
    assert find_copies(a_trace(*parts), steps((0, 200), (200, 400)))["steps"].to_list() == [1]


def test_synchronizations_by_place_with_what_they_read_back():
    waits = copy(0, 1, "d2h", wait=20, pageable=True, bytes=8)
    alone = ([host("cudaDeviceSynchronize", 500, 560, kind="runtime"), host("cudaFree", 600, 650, kind="runtime")], [])

    found = find_synchronizations(a_trace(waits, alone), STEPS, GAPS.empty())
    rows = {row["call"]: row for row in found.iter_rows(named=True)}

    assert found.schema == SYNCHRONIZATIONS.schema
    assert set(rows) == {"cudaStreamSynchronize", "cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaFree"}
    sync = rows["cudaStreamSynchronize"]
    assert (sync["operator"], sync["where"], sync["host_wait_ns"], sync["reads_back"], sync["bytes"]) == (
        "aten::to",
        "forward (net.py:3)",
        20_000,
        True,
        8,
    )
    assert (rows["cudaMemcpyAsync"]["reads_back"], rows["cudaMemcpyAsync"]["bytes"]) == (True, None)
    assert (rows["cudaDeviceSynchronize"]["reads_back"], rows["cudaDeviceSynchronize"]["host_wait_ns"]) == (False, 60_000)


def gap(start: float, end: float, call: str | None, **more) -> dict:
    row = {"step": 0, "gap": 0, "start_ns": 1000 * start, "end_ns": 1000 * end, "part": dry_part(call)}
    return row | {"call": call, "operator": None, "where": None, "between_steps": False, "thread": 0} | more


def test_run_dry_time_goes_to_the_last_wait_before_the_gap():
    hosts = [
        host("cudaStreamSynchronize", 100, 200, kind="runtime"),
        host("train.py(7): main", 290, 420, kind="python"),
        host("cudaStreamSynchronize", 300, 400, kind="runtime"),
    ]
    gaps = [gap(150, 260, "cudaStreamSynchronize"), gap(380, 420, "cudaStreamSynchronize"), gap(420, 430, None)]
    gaps.append(gap(430, 500, "x", part=LAUNCH))

    found = find_synchronizations(made_trace(hosts=hosts), STEPS, measured_table("gaps", gaps))

    assert found.select("where", "run_dry_ns").rows() == [(None, 110_000), ("main (train.py:7)", 50_000)]


def test_the_call_that_a_gap_names_comes_before_a_later_one():
    hosts = [host("cudaStreamSynchronize", 100, 200, kind="runtime"), host("cudaFree", 200, 210, kind="runtime")]
    gaps = measured_table("gaps", [gap(220, 260, "cudaStreamSynchronize")])
    found = find_synchronizations(made_trace(hosts=hosts), STEPS, gaps)
    assert found.select("call", "run_dry_ns").rows() == [("cudaStreamSynchronize", 40_000), ("cudaFree", 0)]


def test_nothing_is_nothing():
    assert find_copies(made_trace(), STEPS).equals(COPIES.empty())
    assert find_synchronizations(made_trace(), STEPS, GAPS.empty()).equals(SYNCHRONIZATIONS.empty())
