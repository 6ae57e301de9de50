"""Real traces, held against a second reading of them by `json`."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from few import few
from kineto_files import CASES, NAMES, case, lost, plain, read, rows
from slowstep.errors import UnreadableInput
from slowstep.sources._gzip import peek
from slowstep.sources._source import HowRead
from slowstep.sources.kineto import SOURCE

HOST = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "python_function": "python",
    "overhead": "overhead",
}
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def ns(value: Any) -> int:
    return int(value * 1000)


def is_step(event: dict[str, Any]) -> bool:
    return bool(re.match(r"ProfilerStep#\d+$", event["name"]))


# The second reading knows the names of today's categories; test_kineto_schemas.py has those of 2021.
TODAYS = [(path, name) for path, name in zip(CASES, NAMES, strict=True) if "v100_resnet50_workers" not in name]


@pytest.fixture(scope="module", params=few((path for path, _ in TODAYS), every=5, is_sweep=True), ids=[name for _, name in TODAYS])
def both(request: pytest.FixtureRequest) -> tuple[Path, Any, list[dict[str, Any]]]:
    complete = [event for event in plain(request.param) if event["ph"] == "X"]
    return request.param, read(request.param), complete


def first_ns(events: list[dict[str, Any]]) -> int:
    return min(ns(event["ts"]) for event in events if event["cat"] in HOST or event["cat"] in DEVICE)


def test_every_host_event_is_there_at_its_nanosecond(both: Any) -> None:
    _, timeline, events = both
    begin = first_ns(events)
    expected = Counter(
        (ns(e["ts"]) - begin, ns(e["ts"]) + ns(e["dur"]) - begin, HOST[e["cat"]], e["name"], e["pid"], e["tid"])
        for e in events
        if e["cat"] in HOST and not (is_step(e) and e["cat"] == "user_annotation")
    )
    hosts = timeline.table("host_events").join(timeline.table("trace_threads").drop("name"), on="thread")
    assert Counter(hosts.select("start_ns", "end_ns", "kind", "name", "pid", "tid").rows()) == expected


def test_every_device_event_is_there_with_what_the_trace_says_of_it(both: Any) -> None:
    _, timeline, events = both
    begin = first_ns(events)
    expected = Counter(
        (
            ns(e["ts"]) - begin,
            ns(e["ts"]) + ns(e["dur"]) - begin,
            e["name"],
            e["args"]["device"],
            e["args"]["stream"],
            e["args"]["correlation"],
            e["args"].get("registers per thread"),
            product(e["args"].get("grid")),
            product(e["args"].get("block")),
        )
        for e in events
        if e["cat"] in DEVICE
    )
    columns = ("start_ns", "end_ns", "name", "device", "stream", "correlation", "registers", "blocks", "block_threads")
    assert Counter(rows(timeline, "device_events", *columns)) == expected


def product(sides: list[int] | None) -> int | None:
    return None if sides is None else sides[0] * sides[1] * sides[2]


def test_marked_steps_are_those_of_the_host(both: Any) -> None:
    _, timeline, events = both
    begin = first_ns(events)
    expected = [
        (int(e["name"].partition("#")[2]), ns(e["ts"]) - begin, ns(e["ts"]) + ns(e["dur"]) - begin)
        for e in sorted((e for e in events if e["cat"] == "user_annotation" and is_step(e)), key=lambda e: e["ts"])
    ]
    assert rows(timeline, "marked_steps", "number", "start_ns", "end_ns") == expected


def test_shapes_sequences_and_operators_numbers_are_kept(both: Any) -> None:
    _, timeline, events = both
    operators = [e for e in events if e["cat"] == "cpu_op"]
    expected = Counter(
        (e["name"], e["args"].get("External id"), e["args"].get("Sequence number"), compact(e["args"].get("Input Dims"))) for e in operators
    )
    found = timeline.table("host_events").filter(pl.col("kind") == "operator").select("name", "external", "sequence", "shapes")
    assert Counter(found.rows()) == expected


def compact(shapes: Any) -> str | None:
    return None if shapes is None else json.dumps(shapes, separators=(",", ":"))


def test_tables_are_in_order_of_time(both: Any) -> None:
    _, timeline, _ = both
    assert len(timeline.table("host_events")) > 1
    for name, column in (
        ("host_events", "start_ns"),
        ("device_events", "start_ns"),
        ("marked_steps", "start_ns"),
        ("allocations", "time_ns"),
    ):
        assert timeline.table(name)[column].is_sorted()


def test_a_whole_trace_has_lost_nothing(both: Any) -> None:
    _, timeline, _ = both
    assert timeline.trace.complete
    assert {row.severity for row in timeline.health} <= {"info"}


def test_source_recognises_it_by_content(both: Any) -> None:
    path, _, _ = both
    head = b"".join(peek(path, 4096))[:4096]
    assert SOURCE.sniff(head, path)


@pytest.mark.parametrize(
    ("name", "rank", "world_size", "vendor", "devices", "capability"),
    [
        ("a100_2022_schema", 3, 8, "nvidia", 8, 8.0),
        ("a100_collectives", 0, 2, "nvidia", 8, 8.0),
        ("v100_nanoseconds", 0, 1, "nvidia", 8, 7.0),
        ("mi300_python_frames", 0, 8, "amd", 8, None),
        ("mi250_two_steps", None, None, "amd", 4, None),
        ("h100_inference", None, None, "nvidia", 1, 9.0),
        ("cpu_only", 34, 300, None, 0, None),
        ("rank-1", 1, 128, "nvidia", 1, None),
    ],
)
def test_facts_are_those_of_the_file(name: str, rank: Any, world_size: Any, vendor: Any, devices: int, capability: Any) -> None:
    timeline = read(case(name))
    trace = timeline.trace
    assert trace is not None
    assert (trace.rank, trace.world_size, trace.vendor, trace.framework) == (rank, world_size, vendor, "pytorch")
    assert (trace.tells_users_names, trace.costs_its_threads) == (True, True)
    assert trace.bytes == case(name).stat().st_size
    table = timeline.table("trace_devices")
    assert len(table) == devices
    assert table["compute_capability"].to_list()[:1] == [capability][: min(devices, 1)]


def test_recorded_kinds_are_what_the_profiler_was_asked_for() -> None:
    def recorded(name: str) -> set[str]:
        trace = read(case(name)).trace
        assert trace is not None
        return set(trace.recorded)

    usual = {"operators", "runtime", "device", "annotations"}
    assert recorded("a100_collectives") == usual
    assert recorded("a100_2022") == usual | {"shapes"}
    assert recorded("h100") == usual | {"shapes", "python", "memory"}
    assert recorded("cpu_only") == {"operators", "annotations", "shapes"}


def test_collectives_have_operation_bytes_and_ranks() -> None:
    found = read(case("a100_collectives")).table("device_events").filter(pl.col("collective").is_not_null())
    assert set(found["collective"].to_list()) == {"allreduce", "broadcast"} or set(found["collective"].to_list()) == {"allreduce"}
    assert found["group_size"].to_list() == [2] * len(found)
    assert 6563840 * 4 in found["bytes"].to_list()  # "In msg nelems" 6563840 of "Float"


def test_copies_have_directions_and_say_whether_memory_is_pageable() -> None:
    found = read(case("a100_2022")).table("device_events").filter(~pl.col("kind").is_in(["kernel", "memset"]))
    pairs = set(found.select(pl.col("kind").cast(pl.String), "pageable", pl.col("name").cast(pl.String)).rows())
    assert ("h2d", False, "Memcpy HtoD (Pinned -> Device)") in pairs
    assert ("d2h", True, "Memcpy DtoH (Device -> Pageable)") in pairs
    assert ("d2d", None, "Memcpy DtoD (Device -> Device)") in pairs


def test_bytes_of_a_copy_on_rocm_come_from_its_call() -> None:
    copies = read(case("mi250")).table("device_events").filter(pl.col("kind") == "h2d")
    calls = [e["args"]["size"] for e in plain(case("mi250")) if e.get("cat") == "cuda_runtime" and "size" in e["args"]]
    assert sorted(copies["bytes"].to_list()) == sorted(map(int, calls))


def test_an_operators_number_that_only_repeats_the_correlation_is_unknown() -> None:
    timeline = read(case("a100_2022"))
    assert timeline.table("device_events")["external"].null_count() == len(timeline.table("device_events"))
    assert "operators-by-time-only" in lost(timeline)
    assert "operators-by-time-only" not in lost(read(case("a100_collectives")))


def test_allocations_have_device_and_totals() -> None:
    path = case("h100")
    expected = [
        (
            -1 if e["args"]["Device Type"] == 0 else e["args"]["Device Id"],
            e["args"]["Bytes"],
            e["args"]["Total Allocated"],
            e["args"]["Total Reserved"],
        )
        for e in plain(path)
        if e["name"] == "[memory]"
    ]
    found = rows(read(path), "allocations", "device", "bytes", "allocated_bytes", "reserved_bytes")
    assert Counter(found) == Counter(expected)
    assert len(found) > 100


def test_threads_have_the_names_of_the_trace() -> None:
    assert ("thread 1262 (pt_autograd_0)",) in rows(read(case("v100")), "trace_threads", "name")


def test_progress_ends_at_the_whole() -> None:
    shares: list[float] = []
    read(case("a100_2022"), HowRead(progress=shares.append))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1, abs=0.05)
    assert len(shares) > 3


def test_a_missing_file_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="cannot be read"):
        SOURCE.read(tmp_path / "none.json", HowRead())
