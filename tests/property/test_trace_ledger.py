"""The ledger of generated traces: exact sums, no instant twice, and the same whatever order the events come in."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import how_many
from made_traces import device, host, made_trace, step
from slowstep.analyses.events.parts import COLLECTIVES, COLUMNS, COPIES, DEVICE_COPIES, KERNELS, MEMSETS, part_of
from slowstep.analyses.events.tables import LEDGER
from slowstep.analyses.ledger.ledger import ledger_rows
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.timeline.timeline import Timeline

KINDS = ("kernel", "h2d", "d2h", "d2d", "p2p", "memset")
RANKS = (KERNELS, DEVICE_COPIES, MEMSETS, COLLECTIVES, COPIES["h2d"], COPIES["d2h"])
NAMES = (
    "aten::mm",
    "enumerate(DataLoader)#_Iter.__next__",
    "save_checkpoint",
    "[Callback]Metrics",
    "Optimizer.step#SGD.step",
    "gloo:all_reduce",
    "save_images",
    "train.py(30): draw",
    "aten::sort",
)
CALLS = ("cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpy", "cudaMemcpyAsync")

LENGTHS = st.integers(0, 12)
TIMES = st.integers(0, 60)
HOSTS = st.tuples(TIMES, LENGTHS, st.sampled_from(["operator", "annotation", "runtime", "python"]), st.integers(0, 3), st.integers(0, 2))
DEVICES = st.tuples(TIMES, LENGTHS, st.sampled_from([*KINDS, "collective"]), st.integers(0, 2), st.one_of(st.none(), st.integers(0, 12)))
STEPS = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 8)), max_size=4)


def traces(*, with_device: bool = True) -> st.SearchStrategy[Timeline]:
    devices = st.lists(DEVICES, min_size=1, max_size=14) if with_device else st.just([])
    return st.builds(_trace, st.lists(HOSTS, max_size=18), devices, STEPS)


def _trace(hosts: list[Any], devices: list[Any], steps: list[Any]) -> Timeline:
    host_rows, device_rows, step_rows = [], [], []
    for number, (start, length, kind, name, thread) in enumerate(hosts):
        names = CALLS if kind == "runtime" else NAMES
        correlation = number if kind == "runtime" else None
        host_rows.append(host(names[(name + number) % len(names)], start, start + length, kind, thread=thread, correlation=correlation))
    for start, length, kind, stream, correlation in devices:
        name = "ncclDevKernel_AllReduce" if kind == "collective" else "a_kernel"
        kind = "kernel" if kind == "collective" else kind
        device_rows.append(device(name, start, start + length, kind, stream=stream, correlation=correlation, pageable=kind == "d2h"))
    at = 0
    for number, (length, hole) in enumerate(steps):
        step_rows.append(step(number + hole // 7, at, at + length))
        at += length + hole
    return made_trace(hosts=host_rows, devices=device_rows, steps=step_rows, tells_users_names=True, costs_its_threads=True)


def check_sums(trace: Timeline) -> None:
    steps, _ = find_trace_steps(trace)
    ledger, gaps = build_trace_ledger(trace, steps)
    lengths = dict(enumerate((steps["end_ns"] - steps["start_ns"]).to_list()))
    assert dict(enumerate(ledger.ns.sum(axis=0).tolist())) == lengths
    assert len(set(ledger.parts)) == len(ledger.parts)
    assert (ledger.ns >= 0).all()
    ordered = gaps.sort("start_ns")
    assert (ordered["end_ns"] > ordered["start_ns"]).all()
    assert (ordered["start_ns"][1:] >= ordered["end_ns"][:-1]).all()
    bounds = ordered.join(steps.select("step", first="start_ns", last="end_ns"), on="step", how="left")
    assert ((bounds["start_ns"] >= bounds["first"]) & (bounds["end_ns"] <= bounds["last"])).all()
    # Nothing ran in a gap.
    for event in trace.table("device_events").filter(pl.col("end_ns") > pl.col("start_ns")).iter_rows(named=True):
        assert ordered.filter((pl.col("start_ns") < event["end_ns"]) & (pl.col("end_ns") > event["start_ns"])).is_empty()


@settings(max_examples=how_many(60))
@given(traces())
def test_a_steps_rows_sum_to_its_length_and_no_instant_counts_twice(trace: Timeline) -> None:
    check_sums(trace)


@settings(max_examples=how_many(40))
@given(traces(with_device=False))
def test_the_same_holds_without_a_device(trace: Timeline) -> None:
    check_sums(trace)


@pytest.mark.slow
@settings(max_examples=how_many(40))
@given(traces())
def test_an_instant_belongs_to_what_has_the_highest_rank(trace: Timeline) -> None:
    steps, _ = find_trace_steps(trace)
    ledger, gaps = build_trace_ledger(trace, steps)
    expected: dict[tuple[int, str, str], int] = {}
    rank_of = {"kernel": 0, "d2d": 1, "p2p": 1, "memset": 2, "h2d": 4, "d2h": 5}
    events = trace.table("device_events").to_dicts()
    for number, row in enumerate(steps.iter_rows(named=True)):
        for instant in range(row["start_ns"], row["end_ns"], 1000):
            on = [
                3 if "nccl" in e["name"] and e["kind"] == "kernel" else rank_of[e["kind"]]
                for e in events
                if e["start_ns"] <= instant < e["end_ns"]
            ]
            if on:
                key = (number, RANKS[min(on)])
                expected[key] = expected.get(key, 0) + 1000
    idle = gaps.group_by("step", *COLUMNS).agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("idle"))
    busy = (
        ledger_rows(ledger)
        .cast(LEDGER.schema)
        .join(idle, on=["step", *COLUMNS], how="left", nulls_equal=True)
        .with_columns(pl.col("ns") - pl.col("idle").fill_null(0))
    )
    rows = busy.filter(pl.col("ns") > 0).select("step", *COLUMNS, "ns").iter_rows()
    found = {(step, part_of(row)): ns for step, *row, ns in rows}
    assert found == expected


@settings(max_examples=how_many(40))
@given(traces(), st.integers(0, 1000))
@pytest.mark.slow
def test_the_order_of_events_does_not_matter(trace: Timeline, seed: int) -> None:
    tables = {name: table.sample(fraction=1.0, shuffle=True, seed=seed) for name, table in trace.tables.items()}
    shuffled = dataclasses.replace(trace, tables=tables)
    steps, notes = find_trace_steps(trace)
    other_steps, other_notes = find_trace_steps(shuffled)
    assert steps.equals(other_steps)
    assert notes == other_notes
    (ledger, gaps), (other, other_gaps) = build_trace_ledger(trace, steps), build_trace_ledger(shuffled, steps)
    assert (ledger.parts, ledger.ns.tolist()) == (other.parts, other.ns.tolist())
    causes = ["step", "gap", "start_ns", "end_ns", *COLUMNS, "between_steps"]
    assert gaps.select(causes).equals(other_gaps.select(causes))
