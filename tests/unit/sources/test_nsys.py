from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from how_many import how_many
from made_exports import NAMES, OTHER, PROCESS, THREAD, call, copy, kernel, made_export, named
from slowstep.errors import UnreadableInput
from slowstep.reason_words import sentence
from slowstep.sources import nsys
from slowstep.sources._nsys import database
from slowstep.sources._source import HowRead
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline

REAL = Path(__file__).parents[2] / "data/nsys/h100_two_processes/trace.sqlite"
KERNELS, COPIES, CALLS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME"


@pytest.fixture
def export(tmp_path):
    def read(**tables) -> Timeline:
        return nsys.read(made_export(tmp_path / "trace.sqlite", {"StringIds": NAMES} | tables))

    return read


def health(timeline: Timeline) -> dict[str, int]:
    return {row.name: row.count for row in timeline.health}


def rows(timeline: Timeline, table: str, *columns: str):
    return timeline.table(table).select(columns).rows()


def has_declared_schema(timeline: Timeline) -> bool:
    return all(dict(frame.schema) == TABLE[name].schema for name, frame in timeline.tables.items())


@pytest.fixture(scope="module")
def real():
    return nsys.read(REAL)


def test_its_two_processes_are_ranks_and_read_one_at_a_time(real):
    other = nsys.read(REAL, HowRead(pid=112))

    assert nsys.processes(REAL) == (111, 112)
    assert rows(real, "trace_threads", "pid", "tid", "name") == [(111, 111, "python3")]
    assert [each.table("trace_devices")["device"].to_list() for each in (real, other)] == [[0], [1]]
    assert other.table("device_events").filter(kind="kernel").height == 515
    assert health(real) == health(other) == {}


def test_nothing_of_the_process_is_lost(real):
    database = sqlite3.connect(REAL)
    counts = {
        kind: database.execute(f"SELECT count(*) FROM {table} WHERE {column} >> 24 = 281476838981632 >> 24").fetchone()[0]
        for kind, table, column in (
            ("kernel", KERNELS, "globalPid"),
            ("runtime", CALLS, "globalTid"),
            ("operator", "NVTX_EVENTS", "globalTid"),
        )
    }
    database.close()

    host, device = real.table("host_events"), real.table("device_events")
    assert counts == {
        "kernel": device.filter(kind="kernel").height,
        "runtime": host.filter(kind="runtime").height,
        "operator": host.filter(kind="operator").height,
    }


def test_pytorchs_ranges_become_operators_with_their_number(real):
    first = real.table("host_events").filter(kind="operator").row(0, named=True)

    assert (first["name"], first["external"], first["sequence"]) == ("aten::view", 314290, None)


def test_kernels_meet_their_launches(real):
    device = real.table("device_events")
    launches = real.table("host_events").filter(kind="runtime")
    met = device.join(launches, on="correlation")

    assert met.height == 524
    assert (met["start_ns"] >= met["start_ns_right"]).all()


def test_times_begin_at_zero_and_facts_are_told(real):
    assert min(real.table(name)["start_ns"].min() for name in ("host_events", "device_events")) == 0
    assert real.trace.recorded == {"operators", "runtime", "device", "annotations"}
    # The session began at 1779630014975716426, as TARGET_INFO_SESSION_START_TIME says; its first event came 155 s later.
    assert 0 < real.trace.clock_ns[0] - 1779630014975716426 < 200 * 10**9
    assert real.trace.clock_ns[1] - real.trace.clock_ns[0] == max(
        real.table(name)["end_ns"].max() for name in ("host_events", "device_events")
    )
    assert (real.trace.framework, real.trace.vendor, real.trace.schema_version) == ("pytorch", "nvidia", "3.25.0")
    assert (real.trace.tells_users_names, real.trace.costs_its_threads) == (True, False)
    assert real.trace.complete
    assert has_declared_schema(real)


def test_reading_tells_its_progress_and_writes_nothing(tmp_path):
    shares: list[float] = []
    before = sorted(REAL.parent.iterdir()), REAL.stat().st_mtime_ns

    nsys.read(REAL, HowRead(progress=shares.append))

    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert (sorted(REAL.parent.iterdir()), REAL.stat().st_mtime_ns) == before


def test_an_sqlite_export_is_recognised_by_its_tables(tmp_path):
    ours = made_export(tmp_path / "any.name", {KERNELS: [kernel(1, 2)]})
    foreign = made_export(tmp_path / "trace.sqlite", {"users": [{"id": 1}]})

    assert nsys.sniff(ours.read_bytes()[:4096], ours)
    assert not nsys.sniff(foreign.read_bytes()[:4096], foreign)
    assert not nsys.sniff(b'{"traceEvents": []}', tmp_path / "trace.json")
    assert not nsys.sniff(b"", tmp_path)


def test_a_report_is_answered_with_the_export_command(tmp_path):
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\x00\x01binary")

    assert nsys.sniff(report.read_bytes(), report)
    with pytest.raises(UnreadableInput, match=r"nsys export --type sqlite --output .*run\.sqlite .*run\.nsys-rep"):
        nsys.read(report)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"users": [{"id": 1}]}, "not an export of Nsight Systems: it holds users"),
        ({"StringIds": NAMES}, "neither CUDA nor NVTX events"),
        ({KERNELS: [{"deviceId": 0}]}, "neither CUDA nor NVTX events"),
    ],
)
def test_files_without_events_are_refused_with_a_reason(tmp_path, tables, said):
    with pytest.raises(UnreadableInput, match=said):
        nsys.read(made_export(tmp_path / "trace.sqlite", tables))


def test_an_empty_or_absent_file_is_refused(tmp_path):
    (tmp_path / "empty.sqlite").touch()

    with pytest.raises(UnreadableInput, match="is empty"):
        nsys.read(tmp_path / "empty.sqlite")
    with pytest.raises(UnreadableInput, match="cannot be read"):
        nsys.read(tmp_path / "absent.sqlite")
    with pytest.raises(UnreadableInput, match="no process 5"):
        nsys.read(made_export(tmp_path / "t.sqlite", {KERNELS: [kernel(1, 2)]}), HowRead(pid=5))


def test_kernels_carry_name_place_and_shape(export):
    timeline = export(**{KERNELS: [kernel(1000, 1500), kernel(2000, 2500, streamId=9, graphNodeId=3)]})

    columns = ("name", "stream", "start_ns", "end_ns", "blocks", "block_threads", "registers", "from_graph")
    assert rows(timeline, "device_events", *columns) == [
        ("gemm", 7, 0, 500, 6, 128, 40, False),
        ("gemm", 9, 1000, 1500, 6, 128, 40, True),
    ]
    assert has_declared_schema(timeline)


def test_columns_that_a_version_lacks_are_unknown(export):
    timeline = export(**{KERNELS: [{"start": 10, "end": 20, "shortName": 1}]})

    event = timeline.table("device_events").row(0, named=True)
    assert (event["name"], event["device"], event["stream"]) == ("gemm", 0, 0)
    assert [event[name] for name in ("correlation", "blocks", "registers", "block_threads")] == [None] * 4
    assert health(timeline) == {"absent-tables": 1}


@pytest.mark.parametrize("absent", [{"StringIds": [{"id": None, "value": None}]}, {}])
def test_an_export_without_the_table_of_names_says_so(tmp_path, absent):
    path = made_export(tmp_path / "trace.sqlite", {KERNELS: [kernel(20, 30)], CALLS: [call(10, 25)], **absent})
    if absent:
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM StringIds")
        database.close()
    timeline = nsys.read(path)

    assert [(row.name, row.severity) for row in timeline.health] == [("absent-names", "data_loss")]
    assert "nsys export --type sqlite" in sentence(timeline.health[0].remedy)
    assert timeline.table("device_events")["name"].to_list() == ["(kernel without a name)"]


def test_impossible_registers_are_unknown_and_counted(export):
    timeline = export(**{KERNELS: [kernel(1, 2, registersPerThread=99999), kernel(3, 4, blockX=0), kernel(5, 6)]})

    assert rows(timeline, "device_events", "registers", "block_threads") == [(None, 128), (40, None), (40, 128)]
    assert health(timeline)["impossible-kernel-shapes"] == 2


def test_copies_have_direction_bytes_and_memory(export):
    made = [
        copy(10, 20, copyKind=1, srcKind=0, dstKind=2),
        copy(30, 40, copyKind=1, srcKind=1, dstKind=2),
        copy(50, 60, copyKind=2, srcKind=2, dstKind=0),
        copy(70, 80, copyKind=8, srcKind=2, dstKind=2),
        copy(90, 95, copyKind=10, srcKind=2, dstKind=2),
        copy(96, 97, copyKind=0, srcKind=1, dstKind=2, bytes=-1),
        copy(98, 99, copyKind=9, srcKind=0, dstKind=0),
    ]
    timeline = export(**{COPIES: made, "CUPTI_ACTIVITY_KIND_MEMSET": [copy(100, 101, bytes=8)]})

    assert rows(timeline, "device_events", "kind", "bytes", "pageable") == [
        ("h2d", 4096, True),
        ("h2d", 4096, False),
        ("d2h", 4096, True),
        ("d2d", 4096, None),
        ("p2p", 4096, None),
        ("h2d", None, False),
        ("memset", 8, None),
    ]
    assert health(timeline)["copies-of-no-device"] == 1


def test_a_whole_graph_is_one_stretch_of_work(export):
    timeline = export(CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[kernel(10, 90, graphId=4)])

    assert rows(timeline, "device_events", "name", "kind", "from_graph") == [("CUDA graph 4", "kernel", True)]
    assert health(timeline)["graphs-traced-whole"] == 1


def test_equal_streams_of_two_contexts_stay_apart(export):
    timeline = export(**{KERNELS: [kernel(1, 9, contextId=1), kernel(2, 8, contextId=5)]})

    assert rows(timeline, "device_events", "stream") == [(7,), (1_000_007,)]


def test_calls_are_named_without_cudas_version_and_told_apart(export):
    timeline = export(**{CALLS: [call(10, 20), call(30, 40, nameId=3)], KERNELS: [kernel(15, 25)]})

    assert rows(timeline, "host_events", "name", "kind", "correlation", "thread") == [
        ("cudaLaunchKernel", "runtime", 5, 0),
        ("cuLaunchKernel", "driver", 5, 0),
    ]


def test_threads_have_process_thread_and_name(export):
    timeline = export(**{CALLS: [call(10, 20), call(12, 14, globalTid=PROCESS | 702)], "ThreadNames": [{"globalTid": THREAD, "nameId": 4}]})

    assert rows(timeline, "trace_threads", "thread", "pid", "tid", "name") == [(0, 77, 701, "main thread"), (1, 77, 702, None)]


def test_ranges_of_pytorch_are_taken_apart(export):
    texts = [
        "aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], []], input_op_ids = [(1, 0)]",
        "AddmmBackward0, seq = 12, op_id = 35",
        "Optimizer.step#SGD.step, op_id = 36",
        "aten::add",
        "a, b = c",
        None,
    ]
    timeline = export(NVTX_EVENTS=[named(10 * n, 10 * n + 5, text) for n, text in enumerate(texts, 1)])

    assert rows(timeline, "host_events", "name", "kind", "sequence", "external", "shapes") == [
        ("aten::mm", "operator", 12, 34, "[[2, 3], []]"),
        ("AddmmBackward0", "operator", 12, 35, None),
        ("Optimizer.step#SGD.step", "annotation", None, 36, None),
        ("aten::add", "operator", None, None, None),
        ("a, b = c", "annotation", None, None, None),
        ("(range without a name)", "annotation", None, None, None),
    ]


def test_registered_texts_open_ranges_and_events_that_are_no_ranges(export):
    made = [
        named(10, 20, None, textId=5),
        named(30, None, "open"),
        named(31, 31, "mark", eventType=34),
        named(32, None, "domain", eventType=75),
    ]
    timeline = export(NVTX_EVENTS=made, **{KERNELS: [kernel(40, 90)]})

    assert rows(timeline, "host_events", "name", "end_ns") == [("optimizer", 10), ("open", 80)]
    assert health(timeline)["open-ranges"] == 1


@pytest.mark.parametrize("form", ["step {}", "iteration {}", "train_step_{}", "ProfilerStep#{}", "Step: {}/1000", "iter[{}]", "batch {}"])
def test_numbered_ranges_of_one_thread_are_steps(export, form):
    made = [named(100 * n, 100 * n + 90, form.format(n)) for n in range(1, 5)]
    timeline = export(NVTX_EVENTS=made)

    assert rows(timeline, "marked_steps", "number", "start_ns", "end_ns", "thread", "mark") == [
        (n, 100 * (n - 1), 100 * (n - 1) + 90, 0, "NVTX") for n in range(1, 5)
    ]


@pytest.mark.parametrize(
    "texts", [["layer 1", "layer 2"], ["step 3"], ["step", "step"], ["micro step 1", "micro step 1", "micro step 1"], ["conv2d", "conv3d"]]
)
def test_other_numbered_ranges_are_no_steps(export, texts):
    timeline = export(NVTX_EVENTS=[named(100 * n, 100 * n + 90, text) for n, text in enumerate(texts, 1)])

    assert timeline.table("marked_steps").is_empty()


def test_steps_win_over_batches_inside_them(export):
    steps = [named(1000 * n, 1000 * n + 900, f"step {n}") for n in range(1, 4)]
    batches = [named(1000 * n + 100 * k, 1000 * n + 100 * k + 50, f"batch {n * 4 + k}") for n in range(1, 4) for k in range(4)]
    timeline = export(NVTX_EVENTS=steps + batches)

    assert timeline.table("marked_steps")["number"].to_list() == [1, 2, 3]


def test_free_ranges_that_cross_others_are_left_out_but_still_mark_steps(export):
    free = [named(100 * n, 100 * n + 100, f"step {n}", eventType=60) for n in range(1, 4)]
    timeline = export(NVTX_EVENTS=[*free, named(150, 250, "aten::mm"), named(310, 320, "aten::mm")])

    assert timeline.table("marked_steps")["number"].to_list() == [1, 2, 3]
    assert rows(timeline, "host_events", "name") == [("aten::mm",), ("step 3",), ("aten::mm",)]
    assert health(timeline)["crossing-ranges"] == 2


def test_of_several_processes_the_busiest_is_read_where_none_is_asked_for(export):
    kernels = [kernel(10, 20, globalPid=OTHER), kernel(30, 40), kernel(50, 60)]
    timeline = export(**{KERNELS: kernels, CALLS: [call(5, 6), call(5, 6, globalTid=OTHER | 1)]})

    assert timeline.table("device_events").height == 2
    assert timeline.table("host_events").height == 1


def test_a_process_of_few_kernels_is_no_rank_and_is_counted(tmp_path):
    few = [kernel(10 * n, 10 * n + 5, globalPid=OTHER) for n in range(9)]
    trace = made_export(tmp_path / "t.sqlite", {KERNELS: [*few, *(kernel(10 * n, 10 * n + 5) for n in range(91))]})

    assert nsys.processes(trace) == ()
    assert next(row for row in nsys.read(trace).health if row.name == "other-processes").count == 1


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00" + bytes(200)])
def test_a_file_that_cannot_be_read_holds_no_processes(tmp_path, content):
    trace = tmp_path / "t.sqlite"
    trace.write_bytes(content)

    assert nsys.processes(trace) == ()


def test_events_without_sane_times_are_counted_and_those_of_no_length_kept(export):
    timeline = export(**{KERNELS: [kernel(0, 0), kernel(50, 40), kernel(None, 4), kernel(10, 10)], CALLS: [call(5, 4)]})

    assert rows(timeline, "device_events", "start_ns", "end_ns") == [(0, 0)]
    assert health(timeline)["events-without-times"] == 4


def test_clocks_that_differ_are_said(export):
    far = export(**{KERNELS: [kernel(10**15, 10**15 + 5)], CALLS: [call(10, 20)]})

    assert health(far) == {"clocks-apart": 1}


def test_work_before_its_launch_is_said(export):
    timeline = export(**{KERNELS: [kernel(10, 25)], CALLS: [call(20, 30)]})

    assert health(timeline) == {"work-before-its-launch": 1}


def test_devices_are_described_by_the_number_that_cuda_gives_them(export):
    timeline = export(
        **{KERNELS: [kernel(1, 2, deviceId=0)]},
        TARGET_INFO_GPU=[
            {"id": 3, "name": "NVIDIA H100", "totalMemory": 8 << 30, "smCount": 132, "computeMajor": 9, "computeMinor": 0},
            {"id": 0, "name": "NVIDIA T4"},
        ],
        TARGET_INFO_CUDA_DEVICE=[{"gpuId": 3, "cudaId": 0, "pid": 77}, {"gpuId": 0, "cudaId": 0, "pid": 78}],
    )

    assert timeline.table("trace_devices").rows() == [(0, "NVIDIA H100", 8 << 30, 132, 9.0)]


def test_texts_with_separators_and_broken_utf8_do_not_shift_columns(export, tmp_path):
    timeline = export(NVTX_EVENTS=[named(10, 20, "a\x1fb\x1ec\n"), named(30, 40, "plain")])

    assert rows(timeline, "host_events", "name") == [("a b c\n",), ("plain",)]

    database = sqlite3.connect(tmp_path / "trace.sqlite")
    database.execute("UPDATE NVTX_EVENTS SET text = CAST(x'ff61' AS TEXT) WHERE start = 10")
    database.commit()
    database.close()
    assert rows(nsys.read(tmp_path / "trace.sqlite"), "host_events", "name") == [("\ufffda",), ("plain",)]


@pytest.mark.usefixtures("spilled")
def test_spilled_rows_give_equal_tables(monkeypatch):
    whole = nsys.read(REAL)
    monkeypatch.setattr(database, "CHUNK_ROWS", 500)

    little = nsys.read(REAL, HowRead(memory_bytes=20_000))

    assert {name: frame.equals(whole.tables[name]) for name, frame in little.tables.items()} == dict.fromkeys(whole.tables, True)


@pytest.mark.slow
def test_a_file_cut_anywhere_is_read_in_part_or_refused(tmp_path):
    whole, drawn = REAL.read_bytes(), random.Random(0)
    path = tmp_path / "cut.sqlite"
    read_in_part = 0
    for size in [drawn.randrange(len(whole)) for _ in range(50)]:
        path.write_bytes(whole[:size])
        try:
            timeline = nsys.read(path)
        except UnreadableInput:
            continue
        read_in_part += 1
        assert not timeline.trace.complete
        assert health(timeline)["damaged-file"] >= 1
        assert has_declared_schema(timeline)
    assert read_in_part > 25


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    made = {KERNELS: [kernel(n, n + 5) for n in range(1, 200)], CALLS: [call(n, n + 2) for n in range(1, 200)]}
    ranges = [named(n, n + 1, f"step {n}") for n in range(1, 200)]
    path = made_export(tmp_path_factory.mktemp("small") / "small.sqlite", {"StringIds": NAMES, "NVTX_EVENTS": ranges, **made})
    return path.read_bytes()


@pytest.mark.slow
@settings(max_examples=how_many(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 200_000), st.binary(min_size=1, max_size=40)), min_size=1, max_size=6))
def test_a_file_with_scribbles_never_gives_a_traceback(tmp_path, small, scribbles):
    raw = bytearray(small)
    for place, text in scribbles:
        at = place % len(raw)
        raw[at : at + len(text)] = text
    path = tmp_path / "scribbled.sqlite"
    path.write_bytes(raw)

    try:
        timeline = nsys.read(path) if nsys.sniff(bytes(raw[:4096]), path) else None
    except UnreadableInput:
        return
    assert timeline is None or has_declared_schema(timeline)


@pytest.mark.parametrize("start", [b"\x1f\x8b\x08", b"\x8b", b"x\x9c", b"x^", b"(\xb5/\xfd"])
def test_a_text_that_looks_compressed_is_a_text(tmp_path, start):
    odd = [{**NAMES[0], "id": None, "value": start + b"odd"}, *NAMES]
    path = made_export(
        tmp_path / "odd.sqlite", {"StringIds": odd, "META_DATA_EXPORT": [{"name": start, "value": b"y"}], KERNELS: [kernel(1, 2)]}
    )

    assert rows(nsys.read(path), "device_events", "name") == [("gemm",)]


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 100), st.floats(), st.text(max_size=5), st.binary(max_size=5)
)


@pytest.mark.slow
@settings(max_examples=how_many(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_values_in_any_column_never_give_a_traceback(tmp_path, data):
    def any_rows(like):
        return [{name: data.draw(VALUES) for name in like} for _ in range(data.draw(st.integers(1, 4)))]

    path = tmp_path / "odd.sqlite"
    path.unlink(missing_ok=True)
    tables = {
        KERNELS: any_rows(kernel(1, 2)),
        COPIES: any_rows(copy(1, 2)),
        CALLS: any_rows(call(1, 2)),
        "NVTX_EVENTS": any_rows(named(1, 2, "")),
    }

    timeline = nsys.read(
        made_export(path, {"StringIds": any_rows(NAMES[0]), "ThreadNames": any_rows({"globalTid": 1, "nameId": 1}), **tables})
    )

    assert has_declared_schema(timeline)
    assert all((frame["end_ns"] >= frame["start_ns"]).all() for name, frame in timeline.tables.items() if "end_ns" in frame.columns)
