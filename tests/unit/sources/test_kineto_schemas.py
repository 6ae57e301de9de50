"""Made-up traces, one for each way in which Kineto and its likes have written them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kineto_files import event, kernel, launch, lost, raw, read, read_text, rows, same, written
from slowstep.errors import UnreadableInput
from slowstep.sources import kineto
from slowstep.sources._source import PLAIN
from slowstep.sources.kineto import SOURCE

OPERATOR = event("aten::mm", 100, 50, args={"External id": 4, "Input Dims": [[2, 3], []], "Input type": ["float", ""]})
STEP = event("ProfilerStep#7", 90, 500, "user_annotation")
EVENTS = [STEP, OPERATOR, launch(110, 9), kernel(130.5, 20.25, 9)]


def test_times_count_from_the_first_event_in_nanoseconds(tmp_path: Path) -> None:
    timeline = read(written(tmp_path, EVENTS))
    assert rows(timeline, "host_events", "name", "start_ns", "end_ns") == [
        ("aten::mm", 10_000, 60_000),
        ("cudaLaunchKernel", 20_000, 25_000),
    ]
    assert rows(timeline, "device_events", "name", "start_ns", "end_ns") == [("gemm", 40_500, 60_750)]
    assert rows(timeline, "marked_steps", "number", "start_ns", "end_ns", "mark") == [(7, 0, 500_000, "ProfilerStep")]


def test_first_schema_with_capitals_words_for_streams_and_lower_case_ids(tmp_path: Path) -> None:
    """PyTorch 1.8: Operator, Runtime, Kernel, Memcpy; `external id`, `Input dims`, streams as `stream 7`, thread ids as text."""
    old = {"pid": 100, "tid": "100"}
    args = {"External id": 4, "Input dims": [[2, 3]], "Call stack": "model.py(3): forward;train.py(9): <module>"}
    copy = {"device": 1, "stream": 20, "correlation": 10, "external id": 4, "bytes": 64}
    events = [
        event("aten::mm", 100, 50, "Operator", args=args, **old),
        event("cudaLaunchKernel", 110, 5, "Runtime", args={"cbid": 211, "correlation": 9, "external id": 4}, **old),
        event("gemm", 130, 20, "Kernel", pid=1, tid="stream 7", args={"correlation": 9, "external id": 4}),
        event("Memcpy HtoD (Pageable -> Device)", 160, 20, "Memcpy", pid=1, tid="stream 20", args=copy),
        event("Memset (Device)", 190, 2, "Memset", pid=1, tid="stream 7", args={"correlation": 11, "bytes": 8}),
    ]
    timeline = read(written(tmp_path, events))
    assert rows(timeline, "host_events", "kind", "external", "shapes", "stack") == [
        ("operator", 4, "[[2,3]]", "model.py(3): forward;train.py(9): <module>"),
        ("runtime", 4, None, None),
    ]
    assert rows(timeline, "device_events", "device", "stream", "kind", "correlation", "external", "bytes", "pageable") == [
        (1, 7, "kernel", 9, 4, None, None),
        (1, 20, "h2d", 10, 4, 64, True),
        (1, 7, "memset", 11, None, 8, None),
    ]
    assert rows(timeline, "trace_threads", "pid", "tid") == [(100, 100)]
    assert "stacks" in timeline.trace.recorded


@pytest.mark.parametrize("flow", ["async_cpu_to_gpu", "ac2g"])
def test_flows_of_either_name_are_no_events(tmp_path: Path, flow: str) -> None:
    arrows = [{"ph": ph, "id": 9, "pid": 100, "tid": 100, "ts": 111, "cat": flow, "name": flow, "bp": "e"} for ph in "sf"]
    assert same(read(written(tmp_path, [*EVENTS, *arrows])), read(written(tmp_path, EVENTS)))


@pytest.mark.parametrize("name", ["made.json", "made.json.gz"])
@pytest.mark.parametrize(
    "write",
    [
        lambda d: json.dumps(d),
        lambda d: json.dumps(d, separators=(",", ":")),
        lambda d: json.dumps(d, indent=1),
        lambda d: json.dumps(d, indent=4),
        lambda d: json.dumps(d, indent="\t"),
        lambda d: "\ufeff" + json.dumps(d, indent=2).replace("\n", "\r\n"),
        lambda d: json.dumps(d, sort_keys=True),
        lambda d: json.dumps({"about": [{"traceEvents": [{}]}, '"traceEvents": [{']} | d),
        lambda d: json.dumps(d["traceEvents"]),
        lambda d: json.dumps(d["traceEvents"], indent=2),
        lambda d: json.dumps(d, indent=2) + "\n\n",
    ],
    ids=["spaced", "minified", "one", "four", "tabs", "crlf", "sorted", "nested", "list", "pretty list", "ends in lines"],
)
def test_layout_does_not_matter(tmp_path: Path, write: Any, name: str) -> None:
    odd = event('},{ "quoted" \\" }],\n  },\n  {', 200, 5, args={"list": [{"a": 1}, {"b": [{}, {"c": "}},{{"}]}]})
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}], "traceEvents": [*EVENTS, odd] * 40}
    # Repeated rows with numbers count once, so that only those without are many.
    expected = read(raw(tmp_path, json.dumps(document).encode()))
    assert len(expected.table("host_events")) == 42
    text = write(document)
    found = read_text(tmp_path, text.encode(), name)
    if text.lstrip().startswith("["):  # A plain list says nothing of devices.
        assert found.table("trace_devices")["name"].to_list() == [None]
        expected.tables["trace_devices"] = found.table("trace_devices")
    assert same(found, expected)
    assert lost(found) == lost(expected)


def test_a_plain_list_is_recognised_and_other_json_is_not(tmp_path: Path) -> None:
    def claims(text: str) -> bool:
        path = raw(tmp_path, text.encode())
        return SOURCE.sniff(path.read_bytes()[:4096], path)

    assert claims(json.dumps(EVENTS))
    assert claims(json.dumps({"x": ["y" * 10_000], "traceEvents": []}))
    assert claims('\n {"traceEvents" : [')
    assert not claims('{"schema": "slowstep/report/1", "run": {}}')
    assert not claims('{"events": [{"ph": "X"}]}')
    assert not claims("[1, 2, 3]")
    assert not claims('[{"name": "x"}]')
    assert not claims("")
    assert not claims("traceEvents")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "nothing was profiled. Likely its schedule never came to the active steps"),
        ([{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "t"}}], "nothing was profiled"),
    ],
)
def test_nothing_to_read_is_said(tmp_path: Path, events: Any, reason: str) -> None:
    with pytest.raises(UnreadableInput, match=reason):
        read(written(tmp_path, events))


def test_absolute_times_with_decimals_keep_their_nanoseconds(tmp_path: Path) -> None:
    """A float of microseconds since 1970 holds only 250 ns; before `baseTimeNanoseconds` they were written so."""
    text = json.dumps({"traceEvents": [event("a", 11, 22, tid=1), event("b", 33, 44, tid=1)]})
    text = text.replace('"ts": 11', '"ts": 1712195495501688.123').replace('"ts": 33', '"ts": 1712195495501689.4')
    timeline = read_text(tmp_path, text.encode())
    assert rows(timeline, "host_events", "start_ns") == [(0,), (1277,)]


@pytest.mark.parametrize(
    "other",
    ["1712195495501689.400", "1712195495501689.4", "1712195495501689", "01712195495501689.400", "171219549550168.9400e1"],
    ids=["aligned", "fewer decimals", "none", "a zero before", "an exponent"],
)
def test_absolute_times_are_the_same_however_they_are_written(tmp_path: Path, other: str) -> None:
    text = json.dumps({"traceEvents": [event(name, at, 22, tid=1) for name, at in (("a", 11), ("b", 33), ("c", 55))]})
    text = text.replace('"ts": 11', '"ts": 1712195495501688.123').replace('"ts": 33', f'"ts": {other}')
    text = text.replace('"ts": 55', '"ts": 1712195495501690.001')
    timeline = read_text(tmp_path, text.encode())
    times = dict(rows(timeline, "host_events", "name", "start_ns"))
    if other.startswith("0"):  # is no JSON
        assert times == {"a": 0, "c": 1878}
        assert lost(timeline) == {"malformed-events": 1}
    else:
        # With an exponent it is read as a float, which holds 250 ns.
        assert times == {"a": 0, "b": pytest.approx(877 if other.endswith("689") else 1277, abs=500 if "e" in other else 0), "c": 1878}


@pytest.mark.parametrize("ts", [None, '"ts": 10000000000000000', '"ts": 8300000000000000.5', '"ts": null'])
def test_beside_absolute_times_what_has_none_is_left_out_and_counted(tmp_path: Path, ts: str | None) -> None:
    text = json.dumps({"traceEvents": [event("a", 11, 22, tid=1), event("b", 33, 44, tid=1)]})
    text = text.replace('"ts": 11', '"ts": 1712195495501688.123').replace('"ts": 33, ' if ts is None else '"ts": 33', ts or "")
    timeline = read_text(tmp_path, text.encode())
    assert rows(timeline, "host_events", "name", "start_ns") == [("a", 0)]
    assert lost(timeline) == {"events-without-time": 1}


def test_whole_microseconds_since_1970_are_exact(tmp_path: Path) -> None:
    timeline = read(written(tmp_path, [event("a", 1661203462599661, 3), event("b", 1661203462599664, 3)]))
    assert rows(timeline, "host_events", "start_ns", "end_ns") == [(0, 3000), (3000, 6000)]


def test_times_and_numbers_as_text_are_read(tmp_path: Path) -> None:
    events = [
        event("a", "100.5", "20", args={"External id": "12"}),
        kernel("110", 5, 3, args={"device": "0", "stream": "7", "correlation": "3", "registers per thread": None}),
    ]
    timeline = read(written(tmp_path, events))
    assert rows(timeline, "host_events", "start_ns", "end_ns", "external") == [(0, 20_000, 12)]
    assert rows(timeline, "device_events", "start_ns", "correlation", "registers") == [(9500, 3, None)]


def test_rocm_calls_and_copies_by_kind(tmp_path: Path) -> None:
    events = [
        event("hipMemcpyWithStream", 100, 9, "cuda_runtime", args={"correlation": 5, "size": "4096", "kind": "HtoD"}),
        event("CopyHostToDevice", 110, 3, "gpu_memcpy", pid=2, tid=0, args={"device": 2, "stream": 0, "correlation": 5, "kind": "HtoD"}),
        event("Memcpy", 120, 3, "gpu_memcpy", pid=2, tid=0, args={"device": 2, "stream": 0, "correlation": 6, "kind": "DeviceToHost"}),
        event("Memcpy", 130, 3, "gpu_memcpy", pid=2, tid=0, args={"device": 2, "stream": 0, "correlation": 7, "kind": "PtoP"}),
        event("Memcpy", 140, 3, "gpu_memcpy", pid=2, tid=0, args={"device": 2, "stream": 0, "correlation": 8}),
    ]
    timeline = read(written(tmp_path, events))
    assert rows(timeline, "device_events", "kind", "bytes") == [("h2d", 4096), ("d2h", None), ("p2p", None), ("d2d", None)]
    assert lost(timeline) == {"copies-without-direction": 1}
    assert timeline.trace.vendor == "amd"


def test_what_is_no_work_is_left_out(tmp_path: Path) -> None:
    more = [
        event("ProfilerStep#7", 95, 400, "gpu_user_annotation", pid=0, tid=7),
        event("Stream Wait Event", 95, 0, "cuda_sync", pid=0, tid=7),
        event("PyTorch Profiler (0)", 1, 999, "Trace", pid="Spans", tid="PyTorch Profiler"),
        {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 999},
    ]
    assert same(read(written(tmp_path, [*EVENTS, *more])), read(written(tmp_path, EVENTS)))


def test_python_frames_overhead_and_driver_have_their_kinds(tmp_path: Path) -> None:
    events = [
        event("train.py(3): step", 100, 50, "python_function", args={"Python id": 1, "Python parent id": 0}),
        event("Activity Buffer Request", 100, 50, "overhead", pid=-1, tid=0),
        event("cuLaunchKernelEx", 120, 5, "cuda_driver", args={"correlation": 3}),
    ]
    timeline = read(written(tmp_path, events))
    assert sorted(rows(timeline, "host_events", "kind", "name")) == [
        ("driver", "cuLaunchKernelEx"),
        ("overhead", "Activity Buffer Request"),
        ("python", "train.py(3): step"),
    ]
    assert sorted(rows(timeline, "trace_threads", "pid")) == [(-1,), (100,)]


def test_kernels_of_a_graph_share_their_launch(tmp_path: Path) -> None:
    events = [
        launch(100, 5, name="cudaGraphLaunch"),
        kernel(110, 5, 5),
        kernel(120, 5, 5, args={"graph node id": 8}),
        launch(130, 6),
        kernel(140, 5, 6, args={"graph node id": 0}),
        kernel(150, 5, 7, args={"graph node id": 9}),
    ]
    found = rows(read(written(tmp_path, events)), "device_events", "correlation", "from_graph")
    assert found == [(5, True), (5, True), (6, False), (7, True)]


def test_a_correlation_of_zero_is_none(tmp_path: Path) -> None:
    found = read(written(tmp_path, [launch(100, 0), kernel(110, 5, 0)]))
    assert rows(found, "device_events", "correlation") == [(None,)]
    assert rows(found, "host_events", "correlation") == [(None,)]


def test_processes_that_use_the_same_correlations_are_told_apart(tmp_path: Path) -> None:
    events = [launch(100, 5), kernel(110, 5, 5), launch(200, 5, pid=101, tid=101), kernel(210, 5, 5, args={"device": 1}), kernel(205, 1, 6)]
    timeline = read(written(tmp_path, [*events, launch(204, 6)]))
    joined = timeline.table("device_events").join(timeline.table("host_events"), on="correlation", suffix="_host")
    assert sorted(joined.select("start_ns", "start_ns_host").rows()) == [(10_000, 0), (105_000, 104_000), (110_000, 100_000)]
    assert lost(timeline) == {"shared-correlations": 1}


def test_collectives_that_only_their_operator_describes(tmp_path: Path) -> None:
    about = {"External id": 3, "Collective name": "allreduce", "In msg nelems": 10, "dtype": "BFloat16", "Group size": 4}
    events = [event("record_param_comms", 100, 9, args=about), kernel(120, 5, 9, name="ncclKernel_AllReduce", args={"External id": 3})]
    found = rows(read(written(tmp_path, events)), "device_events", "collective", "bytes", "group_size")
    assert found == [("allreduce", 20, 4)]


def test_a_trace_of_another_tool_is_read_and_said_to_lack_things(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "name": "step", "pid": "main", "tid": "worker 3", "ts": 1, "dur": 2},
        {"ph": "X", "name": "load", "cat": "FEE", "pid": "main", "tid": "worker 3", "ts": 1, "dur": 1},
        {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "C", "name": "bytes", "pid": 1, "tid": 1, "ts": 1, "args": {"value": 3}},
    ]
    timeline = read(raw(tmp_path, json.dumps({"traceEvents": events}).encode()))
    assert timeline.trace.format == "Chrome trace"
    assert timeline.trace.framework is None
    assert (timeline.trace.tells_users_names, timeline.trace.costs_its_threads) == (False, False)
    assert set(rows(timeline, "host_events", "kind", "name")) == {("annotation", "step"), ("annotation", "load")}
    assert lost(timeline) == {"trace-of-another-tool": 1, "events-without-duration": 1, "unused-events": 1, "events-of-unknown-category": 1}
    assert rows(timeline, "trace_threads", "pid", "tid", "name") == [(None, 3, "worker 3")]


@pytest.mark.parametrize("chunk_bytes", [kineto.CHUNK_BYTES, 300])
def test_begins_and_ends_of_other_tools_are_paired_by_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    def edge(ph: str, ts: float | None, name: str = "", tid: int = 1, **more: Any) -> dict[str, Any]:
        return {"ph": ph, "name": name, "cat": "toplevel", "pid": 1, "tid": tid, "ts": ts} | more

    monkeypatch.setattr(kineto, "CHUNK_BYTES", chunk_bytes)
    nested = [edge("B", 100, "outer"), edge("B", 110, "other", tid=2), edge("B", 120, "inner"), edge("E", 130.5), edge("E", 135, tid=2)]
    odd = [edge("E", 190), edge("E", 200), edge("B", 210, "timeless"), edge("E", None), edge("B", 220, "open")]
    timeline = read(written(tmp_path, [*nested, *odd]))
    assert rows(timeline, "host_events", "name", "start_ns", "end_ns") == [
        ("outer", 0, 90_000),
        ("other", 10_000, 35_000),
        ("inner", 20_000, 30_500),
    ]
    expected = {"events-of-unknown-category": 3, "ends-without-begin": 1, "events-without-duration": 2}
    assert lost(timeline) == expected


def test_a_null_beside_exact_times_makes_them_no_less_exact(tmp_path: Path) -> None:
    begin = "1700000000000000"
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": [event("a", 1, 5), event("b", 2, 5), event("none", None, 5), event("c", 3, None)]}
    )
    for number, decimals in ((1, "123"), (2, "125"), (3, "130")):
        text = text.replace(f'"ts": {number},', f'"ts": {begin}.{decimals},')
    timeline = read_text(tmp_path, text.encode())
    assert rows(timeline, "host_events", "name", "start_ns") == [("a", 0), ("b", 2)]
    assert lost(timeline) == {"events-without-time": 1, "events-without-duration": 1}


def test_a_time_of_0_beside_absolute_times_is_none(tmp_path: Path) -> None:
    begin = 1_700_000_000_000_000
    late = [
        event("a", begin, 5),
        event("b", begin + 10, 5),
        kernel(begin + 20, 5, 3),
        event("ProfilerStep#1", begin, 40, "user_annotation"),
    ]
    unmeasured = [event("no time", 0, 5), kernel(0, 5, 4)]
    timeline = read(written(tmp_path, [*late, *unmeasured]))
    assert same(timeline, read(written(tmp_path, late, "late.json")))
    assert lost(timeline) == {"events-without-time": 2}


def test_a_trace_whose_times_begin_with_0_is_whole(tmp_path: Path) -> None:
    timeline = read(written(tmp_path, [event("a", 0, 5), event("b", 3_000_000_000, 5), kernel(10, 5, 3)]))
    assert rows(timeline, "host_events", "name", "start_ns") == [("a", 0), ("b", 3_000_000_000_000)]
    assert lost(timeline) == {}


def test_devices_without_properties_are_listed(tmp_path: Path) -> None:
    properties = [
        {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 8, "computeMajor": 9, "computeMinor": 0, "numSms": 132},
        "?",
        {"name": "x"},
    ]
    timeline = read(written(tmp_path, [*EVENTS, kernel(600, 1, 10, args={"device": 3})], deviceProperties=properties))
    assert timeline.table("trace_devices").rows() == [(0, "NVIDIA H100", 8, 132, 9.0), (3, None, None, None, None)]


def test_read_needs_no_name_that_ends_in_json(tmp_path: Path) -> None:
    assert same(read(written(tmp_path, EVENTS, "trace")), SOURCE.read(written(tmp_path, EVENTS), PLAIN))


def test_metadata_after_the_events_counts_too(tmp_path: Path) -> None:
    text = json.dumps(
        {"traceEvents": EVENTS, "distributedInfo": {"rank": 5, "world_size": 6}, "deviceProperties": [{"id": 0}, {"id": 1}]}, indent=2
    )
    timeline = read_text(tmp_path, text.encode())
    assert (timeline.trace.rank, timeline.trace.world_size) == (5, 6)
    assert len(timeline.table("trace_devices")) == 2


def test_a_sequence_number_below_zero_is_none(tmp_path: Path) -> None:
    events = [event("a", 100, 1, args={"Sequence number": -1}), event("b", 101, 1, args={"Sequence number": 0})]
    assert rows(read(written(tmp_path, events)), "host_events", "sequence") == [(None,), (0,)]
