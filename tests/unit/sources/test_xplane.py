from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from how_many import how_many
from made_xplanes import MadePlane, gpu, host, made_xplane
from slowstep.errors import UnreadableInput
from slowstep.sources import xplane
from slowstep.sources._source import HowRead
from slowstep.sources._xplane import wire
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline

DATA = Path(__file__).parents[2] / "data/xplane"
KERAS, JAX, MI300 = (DATA / name / "trace.xplane.pb" for name in ("keras_fit", "jax_steps", "mi300_jax"))


@pytest.fixture
def read(tmp_path):
    return lambda *planes: xplane.read(made_xplane(tmp_path / "any.xplane.pb", *planes))


def health(timeline: Timeline) -> dict[str, int]:
    return {row.name: row.count for row in timeline.health}


def rows(timeline: Timeline, table: str, *columns: str):
    return timeline.table(table).select(columns).rows()


def has_declared_schema(timeline: Timeline) -> bool:
    return all(dict(frame.schema) == TABLE[name].schema for name, frame in timeline.tables.items())


def test_keras_steps_are_found_by_their_name():
    timeline = xplane.read(KERAS)

    steps = timeline.table("marked_steps")
    assert steps["number"].to_list() == [9, 10, 11, 12, 13, 14, 15]
    assert steps["mark"].unique().to_list() == ["Profiled batch"]
    assert timeline.trace.framework == "tensorflow"
    # The session was told to start at 1795265842962555285 (plane "Task Environment").
    assert 0 <= timeline.trace.clock_ns[0] - 1795265842962555285 < 10**9
    assert timeline.trace.recorded == {"operators", "annotations"}
    assert health(timeline) == {}


def test_keras_operators_and_waits_for_input_are_there():
    host_events = xplane.read(KERAS).table("host_events")

    slow = host_events.filter(name="PyFunc:PyFunc")
    waits = host_events.filter(name="IteratorGetNextOp::DoCompute")
    assert slow["kind"].unique().to_list() == ["operator"]
    assert (slow["end_ns"] - slow["start_ns"]).min() > 4_000_000  # the sleep that made_by.py puts there
    assert (waits["end_ns"] - waits["start_ns"]).median() > 10_000_000


def test_jax_steps_are_found_by_their_number():
    timeline = xplane.read(JAX)

    steps = timeline.table("marked_steps")
    assert steps.select("number", "mark").rows() == [(n, "step_num") for n in range(6)]
    assert (steps["end_ns"] - steps["start_ns"]).min() > 2_000_000
    assert timeline.trace.framework == "jax"
    assert timeline.table("host_events").filter(name="dot")["kind"].unique().to_list() == ["operator"]


@pytest.mark.parametrize(("path", "expected"), [(JAX, True), (MI300, False), (KERAS, None)])
def test_the_programs_that_ran_tell_whether_they_compute_gradients(path, expected):
    assert xplane.read(path).trace.gradients is expected


def test_a_program_that_computes_gradients_and_did_not_run_tells_nothing(tmp_path):
    def programs(**documents):
        plane = MadePlane("/host:metadata")
        for name, document in documents.items():
            entry = plane.message.event_metadata.add(key=len(plane.message.event_metadata) + 1)
            entry.value.name = f"{name}(7)".encode()
            entry.value.stats.add(metadata_id=1, bytes_value=document)
        return plane

    known = programs(jit_step=b"\x0ajit(step)/transpose(jvp(loss))/mul", jit_forward=b"\x0ajit(forward)/transpose")
    ran = {name: host([("op", 0, 1, {"hlo_module": name})]) for name in ("jit_step", "jit_forward", "jit_other")}

    found = {name: xplane.read(made_xplane(tmp_path / f"{name}.xplane.pb", known, plane)).trace.gradients for name, plane in ran.items()}

    assert found == {"jit_step": True, "jit_forward": False, "jit_other": None}


def test_devices_of_the_real_amd_trace_are_read():
    timeline = xplane.read(MI300)

    device = timeline.table("device_events")
    assert device.group_by("kind").len().sort("kind").rows() == [("kernel", 200), ("d2d", 35)]
    assert timeline.table("trace_devices").rows()[0] == (0, None, 206141652992, 304, None)
    assert timeline.table("trace_devices").height == 8
    assert (timeline.trace.vendor, timeline.trace.framework, timeline.trace.host) == ("amd", "jax", "tw003")
    assert (timeline.trace.tells_users_names, timeline.trace.costs_its_threads) == (False, False)
    assert device["occupancy"].null_count() == device.height
    assert timeline.table("marked_steps").is_empty()


def test_kernels_of_the_real_amd_trace_meet_their_launches():
    timeline = xplane.read(MI300)

    launches = timeline.table("host_events").filter(kind="runtime")
    met = timeline.table("device_events").join(launches, on="correlation")
    assert met["correlation"].n_unique() == timeline.table("device_events")["correlation"].n_unique()


@pytest.mark.parametrize("path", [KERAS, JAX, MI300])
def test_real_files_fill_the_declared_tables_from_time_zero(path):
    shares: list[float] = []

    timeline = xplane.read(path, HowRead(progress=shares.append))

    assert has_declared_schema(timeline)
    assert min(frame["start_ns"].min() for name, frame in timeline.tables.items() if name.endswith("events") and len(frame)) == 0
    assert shares == sorted(shares)
    assert shares[-1] > 0.95
    assert xplane.sniff(path.read_bytes()[:4096], Path("no.name"))


def test_kernel_details_of_both_vendors_are_read(read):
    nvidia = {"correlation_id": 4, "kernel_details": "regs:32 static_shared:0 dynamic_shared:0 grid:16,2,1 block:128,2,1 occ_pct:75"}
    amd = {"correlation_id": 5, "kernel_details": " grid:8,1,1 block:64,1,1 private_mem:0 group_mem:0 occ_pct:0"}
    timeline = read(gpu([("gemm", 0, 5, nvidia), ("add", 6, 7, amd)]))

    assert rows(timeline, "device_events", "stream", "correlation", "blocks", "block_threads", "registers", "occupancy") == [
        (13, 4, 32, 256, 32, 0.75),
        (13, 5, 8, 64, None, None),
    ]


def test_garbage_in_registers_is_unknown_and_counted(read):
    garbage = {"kernel_details": "regs:4294967295 grid:1,1,1 block:64,1,1"}
    timeline = read(gpu([("a", 0, 1, garbage), ("b", 2, 3, garbage), ("c", 4, 5, {"kernel_details": "regs:x grid:1,y block:"})]))

    assert rows(timeline, "device_events", "registers", "block_threads") == [(None, 64), (None, 64), (None, None)]
    assert health(timeline) == {"impossible-kernel-shapes": 2}


@pytest.mark.parametrize(
    ("name", "details", "expected"),
    [
        ("MemcpyH2D", "kind_src:pageable kind_dst:device size:1024 dest:0 async:1", ("h2d", 1024, True)),
        ("MemcpyD2H", "kind_src:device kind_dst:pinned size:64 dest:0 async:1", ("d2h", 64, False)),
        ("MemcpyD2D", "kind_src:device kind_dst:device size:64 dest:0 async:1", ("d2d", 64, None)),
        ("MemcpyP2P", None, ("p2p", None, None)),
        ("Memset", None, ("memset", None, None)),
        ("CopyHostToDevice", "kind_src:pinned kind_dst:device size:9", ("h2d", 9, False)),
        ("__amd_rocclr_copyBuffer.kd", None, ("d2d", None, None)),
        ("__amd_rocclr_fillBufferAligned.kd", None, ("memset", None, None)),
        ("loop_add_fusion", None, ("kernel", None, None)),
    ],
)
def test_copies_are_told_from_kernels(read, name, details, expected):
    timeline = read(gpu([(name, 0, 5, {"memcpy_details": details} if details else {})]))

    assert rows(timeline, "device_events", "kind", "bytes", "pageable") == [expected]


def test_rows_that_are_derived_from_streams_are_not_counted_twice(read):
    plane = gpu([("kernel", 0, 5)])
    plane.line("XLA Modules", [("jit_step", 0, 5)]).line("XLA Ops", [("dot", 0, 5)]).line("Steps", [("3", 0, 5)])

    assert rows(read(plane), "device_events", "name") == [("kernel",)]


def test_a_tpu_has_its_innermost_operations_and_its_own_steps(read):
    plane = MadePlane("/device:TPU:0", device_type_string=b"TPU v4")
    plane.line("XLA Ops", [("while", 0, 10), ("fusion.1", 0, 4), ("fusion.2", 4, 10), ("copy", 10, 11)])
    plane.line("Steps", [("7", 0, 5), ("8", 5, 11), ("unknown", 11, 12)])
    timeline = read(plane)

    assert rows(timeline, "device_events", "name") == [("fusion.1",), ("fusion.2",), ("copy",)]
    assert rows(timeline, "marked_steps", "number", "thread", "mark") == [(7, None, "step_num"), (8, None, "step_num")]
    assert timeline.table("trace_devices")["name"].to_list() == ["TPU v4"]
    assert timeline.trace.vendor is None


def test_calls_of_the_runtime_carry_their_correlation(read):
    timeline = read(host([("cudaLaunchKernel", 0, 2, {"correlation_id": 9}), ("cuMemcpyAsync", 3, 4, {"correlation_id": 10})]))

    assert rows(timeline, "host_events", "name", "kind", "correlation") == [
        ("cudaLaunchKernel", "runtime", 9),
        ("cuMemcpyAsync", "driver", 10),
    ]


def test_a_number_without_the_mark_of_a_root_is_no_step(read):
    timeline = read(host([("inner", 0, 9, {"step_num": 1}), ("inner", 10, 19, {"step_num": 2})]))

    assert timeline.table("marked_steps").is_empty()


def test_the_steps_with_most_time_are_the_steps(read):
    train = [("train", 100 * n, 100 * n + 80, {"step_num": n, "_r": 1}) for n in range(3)]
    evaluation = [("eval", 100 * n + 85, 100 * n + 90, {"step_num": n, "_r": 1}) for n in range(3)]

    assert rows(read(host(train + evaluation)), "marked_steps", "number", "end_ns") == [(0, 80_000), (1, 180_000), (2, 280_000)]


def test_ranges_that_cross_are_left_out_and_counted(read):
    timeline = read(host([("outer", 0, 10), ("end: outer", 9, 12), ("next", 20, 21)]))

    assert rows(timeline, "host_events", "name") == [("outer",), ("next",)]
    assert health(timeline) == {"crossing-ranges": 1}


def test_a_log_folder_gives_its_newest_run_and_first_host(tmp_path):
    for run, machine, number in (
        ("2026_01_02_00_00_00", "b", 3),
        ("2026_01_02_00_00_00", "a", 2),
        ("2026_01_01_00_00_00", "a", 1),
    ):
        folder = tmp_path / "logs/train/plugins/profile" / run
        made_xplane(folder / f"{machine}.xplane.pb", host([("train", 0, 9, {"step_num": number, "_r": 1})]))

    for path in (tmp_path / "logs", tmp_path / "logs/train", tmp_path / "logs/train/plugins/profile"):
        assert xplane.sniff(b"", path)
        timeline = xplane.read(path)
        assert timeline.table("marked_steps")["number"].to_list() == [2]
        assert health(timeline) == {"other-hosts": 1, "other-runs": 1}
        assert timeline.trace.host == "a"


def test_folders_and_files_that_are_none_are_refused(tmp_path):
    empty, text, planeless = (tmp_path / name for name in ("empty.xplane.pb", "text.xplane.pb", "planeless.xplane.pb"))
    empty.touch()
    text.write_text("no protobuf, " * 9)
    made_xplane(planeless, MadePlane("/host:metadata", jax_version=b"1"), MadePlane("/host:CPU").line("python", []))

    assert not xplane.sniff(b"", tmp_path / "logs")
    assert not xplane.sniff(b'{"traceEvents": []}', Path("trace.json"))
    for path, said in ((empty, "is empty"), (text, "not an XPlane file"), (planeless, "no event"), (tmp_path / "absent", "cannot be read")):
        with pytest.raises(UnreadableInput, match=said):
            xplane.read(path)
    (tmp_path / "logs").mkdir()
    with pytest.raises(UnreadableInput, match=r"holds no \.xplane\.pb"):
        xplane.read(tmp_path / "logs")


def test_events_that_end_before_they_begin_are_counted(read):
    timeline = read(host([("a", 0, 5), ("b", 9, 4), ("c", 7, 7)]))

    assert rows(timeline, "host_events", "name") == [("a",), ("c",)]
    assert health(timeline) == {"events-without-times": 1}


def test_clocks_that_differ_are_said(read):
    plane = MadePlane("/device:GPU:0").line("Stream #1", [("kernel", 0, 5)], timestamp_ns=10**18)

    assert health(read(host([("a", 0, 5)]), plane)) == {"clocks-apart": 1}


@pytest.mark.slow
@pytest.mark.parametrize("path", [pytest.param(KERAS, marks=pytest.mark.slow), MI300])
@pytest.mark.usefixtures("spilled")
def test_neither_pieces_nor_spilling_change_the_tables(path, monkeypatch):
    whole = xplane.read(path)
    monkeypatch.setattr(wire, "PIECE_BYTES", 500)

    little = xplane.read(path, HowRead(memory_bytes=20_000))

    assert {name: frame.equals(whole.tables[name]) for name, frame in little.tables.items()} == dict.fromkeys(whole.tables, True)


@pytest.mark.parametrize(
    ("path", "least"), [pytest.param(KERAS, 0.9, marks=pytest.mark.slow), (MI300, 0.4)]
)  # half of the latter is a plane without events
def test_a_file_cut_anywhere_is_read_in_part_or_refused(tmp_path, path, least):
    whole, drawn = path.read_bytes(), random.Random(0)
    cut = tmp_path / "cut.xplane.pb"
    tries, read_in_part = how_many(50), 0
    for size in [drawn.randrange(len(whole)) for _ in range(tries)]:
        cut.write_bytes(whole[:size])
        try:
            timeline = xplane.read(cut)
        except UnreadableInput:
            continue
        read_in_part += 1
        assert not timeline.trace.complete
        assert health(timeline)["damaged-planes"] == 1
        assert has_declared_schema(timeline)
    assert read_in_part > least * tries


def test_a_file_cut_off_before_its_first_event_is_said_to_be_cut_off(tmp_path):
    cut, whole = tmp_path / "cut.xplane.pb", MI300.read_bytes()
    cut.write_bytes(whole[: len(whole) // 5])
    empty = made_xplane(tmp_path / "empty.xplane.pb", MadePlane("/host:CPU"))

    with pytest.raises(UnreadableInput, match=r"cut off before the first event .* Copy it again"):
        xplane.read(cut)
    with pytest.raises(UnreadableInput, match=r"but no event of a host thread or a device\. Profile again"):
        xplane.read(empty)


def test_a_line_that_was_cut_keeps_the_events_before_the_cut(tmp_path):
    path = made_xplane(tmp_path / "a.xplane.pb", host([("a", 10 * n, 10 * n + 5) for n in range(1000)]))
    path.write_bytes(path.read_bytes()[:5000])

    timeline = xplane.read(path)

    assert timeline.table("host_events")["start_ns"].to_list() == [10_000 * n for n in range(timeline.trace.events)]
    assert timeline.trace.events > 300
    assert health(timeline)["damaged-planes"] == 1


def test_what_lies_before_the_cut_is_kept_though_names_come_after_it(tmp_path):
    path = made_xplane(tmp_path / "a.xplane.pb", host([("a", 0, 5), ("b", 6, 7)]))
    path.write_bytes(path.read_bytes()[:-20])

    timeline = xplane.read(path)

    assert rows(timeline, "host_events", "start_ns", "end_ns") == [(0, 5000), (6000, 7000)]
    assert health(timeline)["unnamed-events"] >= 1


@pytest.mark.slow
@settings(max_examples=how_many(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 100_000), st.binary(min_size=1, max_size=20)), min_size=1, max_size=5))
def test_a_file_with_scribbles_never_gives_a_traceback(tmp_path, scribbles):
    raw = bytearray(JAX.read_bytes())
    for place, text in scribbles:
        at = place % len(raw)
        raw[at : at + len(text)] = text
    path = tmp_path / "scribbled.xplane.pb"
    path.write_bytes(raw)

    try:
        timeline = xplane.read(path)
    except UnreadableInput:
        return
    assert has_declared_schema(timeline)


NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9))
FACT_NAMES = ["correlation_id", "kernel_details", "memcpy_details", "memset_details", "cuda_graph_id", "step_num", "_r", "hlo_op"]
PLANES = st.sampled_from(["/host:CPU", "/device:GPU:0"])
FACTS = st.dictionaries(st.sampled_from(FACT_NAMES), st.one_of(NUMBERS, st.text(max_size=12), st.binary(max_size=12)), max_size=4)
NAMES = st.one_of(st.sampled_from(["train", "Profiled batch", "MemcpyH2D", "cudaLaunchKernel", "a:B"]), st.text(max_size=5))


@settings(max_examples=how_many(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAMES, NUMBERS, NUMBERS, FACTS), min_size=1, max_size=5), NUMBERS, PLANES)
@pytest.mark.slow
def test_any_values_in_any_field_never_give_a_traceback(tmp_path, events, timestamp_ns, plane_name):
    plane = MadePlane(plane_name, compute_cap_major=-1, memory_size=2**64 - 1, core_count=b"x")
    plane.line("Stream #3", [(name, 0, 1, facts) for name, _, _, facts in events], timestamp_ns=timestamp_ns)
    for event, (_, offset, length, _) in zip(plane.message.lines[0].events, events, strict=True):
        event.offset_ps, event.duration_ps = offset, length

    timeline = xplane.read(made_xplane(tmp_path / "odd.xplane.pb", plane))

    assert has_declared_schema(timeline)
    assert all((frame["end_ns"] >= frame["start_ns"]).all() for name, frame in timeline.tables.items() if "end_ns" in frame.columns)
