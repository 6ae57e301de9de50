"""Damaged files: what is whole is read, what is not is counted, and nothing ends in a traceback."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from few import few
from kineto_files import CASES, NAMES, SMALL, event, kernel, launch, lost, plain, raw, read, read_text, rows, written
from slowstep.errors import UnreadableInput
from slowstep.reason_words import sentence
from slowstep.sources import kineto
from slowstep.sources._gzip import Unpacked
from slowstep.sources._kineto.events import decode_wide
from slowstep.sources._kineto.reader import EVENT_BYTES, EventReader
from slowstep.sources.kineto import SOURCE
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.traces.find import find

CUTS = 50
FEW_CUTS = 12
GAP = ",\n  "


def attempt(path: Path) -> Timeline | None:
    """What can be read of a file; None where that is nothing, and is said in a sentence."""
    try:
        return read(path)
    except UnreadableInput as error:
        said = str(error)
    assert str(path) in said
    assert said.endswith(".")
    return None


def kineto_text(events: list[str], after: str = "") -> bytes:
    """A file as Kineto lays it out."""
    return f'{{\n  "schemaVersion": 1,\n  "traceEvents": [\n  {GAP.join(events)}\n  ]{after}}}'.encode()


def dumped(*events: object) -> list[str]:
    return [json.dumps(each) for each in events]


def good(count: int, start: int = 0) -> list[str]:
    return dumped(*(event(f"op{i}", 100 + i, 1, args={"External id": i + 1}) for i in range(start, start + count)))


@pytest.mark.parametrize("path", few(SMALL, every=4), ids=lambda path: path.parent.name)
@pytest.mark.parametrize("packed", [pytest.param(False, marks=pytest.mark.slow), True], ids=["raw", "gz"])
def test_small_files_cut_anywhere_give_a_part_or_a_sentence(path: Path, packed: bool, tmp_path: Path) -> None:
    assert read_in_part(path, packed, tmp_path, FEW_CUTS) > FEW_CUTS // 5


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in CASES if path not in SMALL][:3], ids=lambda path: path.parent.name)
@pytest.mark.parametrize("packed", [False, True], ids=["raw", "gz"])
def test_files_cut_anywhere_give_a_part_or_a_sentence(path: Path, packed: bool, tmp_path: Path) -> None:
    assert read_in_part(path, packed, tmp_path, 6) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("path", CASES, ids=NAMES)
@pytest.mark.parametrize("packed", [False, True], ids=["raw", "gz"])
def test_all_files_cut_anywhere_give_a_part_or_a_sentence(path: Path, packed: bool, tmp_path: Path) -> None:
    assert read_in_part(path, packed, tmp_path, CUTS) > CUTS // 5


def read_in_part(path: Path, packed: bool, folder: Path, cuts: int) -> int:
    """Cut a file at random places: how many of the beginnings could be read, each of them rightly."""
    whole = path.read_bytes() if packed else gzip.decompress(path.read_bytes())
    names = {each["name"] for each in plain(path) if "name" in each}
    random.seed(path.parent.name)
    readable = 0
    for at in sorted(random.randrange(len(whole.rstrip())) for _ in range(cuts)):
        cut = folder / "cut"
        cut.write_bytes(whole[:at])
        timeline = attempt(cut)
        if timeline is None:
            continue
        readable += 1
        assert not timeline.trace.complete
        assert lost(timeline)["truncated-file"] == 1
        assert lost(timeline).get("malformed-events", 0) == 0
        assert set(timeline.table("host_events")["name"].unique().to_list()) <= names
    return readable


def test_a_cut_loses_only_the_last_event(tmp_path: Path) -> None:
    text = kineto_text(good(50))
    timeline = read_text(tmp_path, text[: text.index(b'"op30"')])
    assert [name for (name,) in rows(timeline, "host_events", "name")] == [f"op{i}" for i in range(30)]
    assert lost(timeline) == {"truncated-file": 1}
    assert not timeline.trace.complete


def test_a_damaged_gzip_gives_what_comes_before(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(kineto_text(good(20_000)), 6))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    path = tmp_path / "bad.json.gz"
    path.write_bytes(packed)
    timeline = read(path)
    assert 1000 < len(timeline.table("host_events")) < 20_000
    assert not timeline.trace.complete
    (row,) = [row for row in timeline.health if row.name == "truncated-file"]
    assert "gzip" in sentence(row.remedy)
    assert row.severity == "data_loss"


@pytest.mark.parametrize("count", [1, 10, 20_000], ids=["under-a-head", "under-a-block", "several-blocks"])
def test_a_gzip_of_which_only_the_checksum_is_wrong_is_read_as_a_whole(tmp_path: Path, count: int) -> None:
    text = kineto_text(good(count))
    packed = bytearray(gzip.compress(text[:100]) + gzip.compress(text[100:]))
    packed[-8] ^= 1
    path = tmp_path / "checksum.json.gz"
    path.write_bytes(packed)

    (found,), _ = find([path])
    timeline = found.source.read(path)

    assert b"".join(Unpacked(path, 1 << 16)) == text
    assert len(timeline.table("host_events")) == count
    assert timeline.trace.complete
    assert lost(timeline) == {"damaged-file": 1}
    assert "checksum" in sentence(timeline.health[0].remedy)


def test_all_that_comes_before_the_damage_of_a_gzip_is_unpacked(tmp_path: Path) -> None:
    text = kineto_text(good(2_000))
    packed = bytearray(gzip.compress(text))
    half = len(packed) // 2
    packed[half:] = random.Random(7).randbytes(len(packed) - half)
    path = tmp_path / "bad.json.gz"
    path.write_bytes(packed)

    known, byte_by_byte = zlib.decompressobj(wbits=31), b""
    with suppress(zlib.error):
        for byte in packed:
            byte_by_byte += known.decompress(bytes((byte,)))

    assert len(byte_by_byte) > len(text) // 3
    for block_bytes in (1 << 10, 1 << 20):
        unpacked = Unpacked(path, block_bytes)
        assert b"".join(unpacked) == byte_by_byte
        assert "damaged" in str(unpacked.damage)
        assert not unpacked.is_cut_off


def test_gzip_of_several_members_and_zeros_behind_is_whole(tmp_path: Path) -> None:
    text = kineto_text(good(10))
    path = tmp_path / "members.json.gz"
    path.write_bytes(gzip.compress(text[:100]) + gzip.compress(text[100:]) + b"\0" * 512)
    timeline = read(path)
    assert len(timeline.table("host_events")) == 10
    assert timeline.trace.complete


@pytest.mark.parametrize(
    "bad",
    [
        '{"ph": "X", "name": "a" "b"}',
        '{"ph": X}',
        "{,}",
        '{"ph": "X", "ts": 1, "dur": }}',
        '"no event"',
        "7",
        "[1]",
        '{"ph": "X", "name": "quote " here"}',
    ],
)
def test_a_malformed_event_costs_itself_only(tmp_path: Path, bad: str) -> None:
    timeline = read_text(tmp_path, kineto_text([*good(300), bad, *good(300, 300)]))
    assert len(timeline.table("host_events")) == 600
    assert lost(timeline) == {"malformed-events": 1}
    assert timeline.trace.complete


@pytest.mark.parametrize("odd", [{"a": 1}, [1], [], "odd", None, True, 1e300])
@pytest.mark.parametrize("field", ["grid", "block", "registers per thread", "correlation", "est. achieved occupancy %", "Collective name"])
def test_an_odd_value_of_a_kernel_costs_that_value_only(tmp_path: Path, field: str, odd: object) -> None:
    for good in ([kernel(10, 5, 1)], []):
        timeline = read(written(tmp_path, [*good, kernel(20, 5, 2, args={field: odd})]))
        assert len(timeline.table("device_events")) == len(good) + 1
        assert "malformed-events" not in lost(timeline)


def test_an_event_whose_time_or_arguments_are_odd_is_counted_for_what_it_lacks(tmp_path: Path) -> None:
    odd = [event("no arguments", 3, 1, args=[1]), event("no length", 4, {"a": 1}), event("no time", [5], 1), event({"name": 1}, 6, 1)]
    timeline = read(written(tmp_path, [event("good", 1, 1), *odd]))
    assert [name for (name,) in rows(timeline, "host_events", "name")] == ["good", "no arguments", "{'name': 1}"]
    assert lost(timeline) == {
        "events-without-time": 1,
        "events-without-duration": 1,
        "args-that-are-no-object": 1,
        "names-that-are-no-text": 1,
    }


def test_shapes_of_another_type_are_unknown_and_counted(tmp_path: Path) -> None:
    of = [[[8, 2], [[2], [3]]], [[8, "2"]], "8", [[2**63]], None]
    made = [event(f"op{at}", at, 1, args={"Input Dims": shapes, "Input type": ["float", 5]}) for at, shapes in enumerate(of, 1)]
    timeline = read(written(tmp_path, made))

    assert rows(timeline, "host_events", "shapes", "types") == [("[[8,2],[[2],[3]]]", None), *[(None, None)] * 4]
    assert lost(timeline) == {"shapes-that-are-no-shapes": 3 + len(of)}


def test_devices_and_ranks_whose_numbers_no_table_holds_are_unknown(tmp_path: Path) -> None:
    properties = [{"id": 2**31, "name": "none"}, {"id": 0, "name": "A100", "numSms": 2**40, "computeMajor": 8, "computeMinor": 10**400}]
    timeline = read(written(tmp_path, [kernel(10, 5, 1)], deviceProperties=properties, distributedInfo={"rank": -1, "world_size": 2**31}))

    assert rows(timeline, "trace_devices", "device", "name", "multiprocessors", "compute_capability") == [(0, "A100", None, None)]
    assert timeline.trace is not None
    assert (timeline.trace.rank, timeline.trace.world_size) == (None, None)


def without(row: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in fields}


@pytest.mark.parametrize(
    ("name", "odd", "kept"),
    [
        ("events-without-name", [without(event("", 3, 1), "name"), without(kernel(4, 1, 2), "name"), event("", 5, 1)], 3),
        ("names-that-are-no-text", [event(12, 3, 1), event(["a"], 4, 1)], 2),
        ("args-that-are-no-object", [event("a", 3, 1, args="zz"), kernel(4, 1, 2) | {"args": [1]}], 2),
        ("launch-numbers-that-are-no-number", [launch(3, "x"), kernel(4, 1, [1]), kernel(5, 1, True), kernel(6, 1, 1.5)], 4),  # type: ignore[arg-type]
        ("events-without-place", [without(event("a", 3, 1), "tid"), event("a", 4, 1, pid=None), without(kernel(5, 1, 2), "pid", "tid")], 3),
        ("events-without-category", [without(event("a", 3, 1), "cat"), event("b", 4, 1, cat=None), event("c", 5, 1, cat="")], 3),
        ("events-of-unknown-category", [event("a", 3, 1, "foo_bar"), event("b", 4, 1, "foo_bar"), event("c", 5, 1, "other")], 3),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_what_an_event_lacks_is_counted_and_the_event_kept(tmp_path: Path, name: str, odd: list[Any], kept: int, *, exact: bool) -> None:
    late_us = 1_700_000_000_000_000.5 if exact else 0
    rows_of = [row | {"ts": row["ts"] + late_us} for row in [event("good", 1, 1), *odd, launch(8, 900)]]
    timeline = read(written(tmp_path, rows_of))

    assert lost(timeline) == {name: kept}
    assert len(timeline.table("host_events")) + len(timeline.table("device_events")) == kept + 2
    assert {row.name: row.severity for row in timeline.health}[name] in ("notice", "data_loss")


def test_unknown_categories_are_named(tmp_path: Path) -> None:
    odd = [event("a", at, 1, f"foo_{at}") for at in range(2, 6)]
    timeline = read(written(tmp_path, [event("good", 1, 1), *odd]))

    assert lost(timeline) == {"events-of-unknown-category": 4}
    assert "(foo_2, foo_3, foo_4, ...)" in sentence(timeline.health[0].remedy)


def test_what_has_no_category_name_or_place_by_its_nature_is_not_counted(tmp_path: Path) -> None:
    others = [
        {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "ts": 1, "args": {"name": "main"}},
        {"ph": "s", "id": 3, "pid": 100, "tid": 100, "ts": 1, "name": "fwdbwd"},
        {"ph": "f", "id": 3, "pid": 100, "tid": 100, "ts": 2, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"},
        {"ph": "i", "s": "g", "pid": "", "tid": "", "ts": 1, "name": "Record Window End"},
        without(event("no arguments", 3, 1), "args"),
        event("null arguments", 5, 1) | {"args": None},
        launch(7, "8"),  # type: ignore[arg-type]
        launch(9, None),  # type: ignore[arg-type]
    ]
    assert lost(read(written(tmp_path, [event("good", 1, 1), *others]))) == {}


def test_an_event_in_no_place_is_said_to_be_so(tmp_path: Path) -> None:
    timeline = read(written(tmp_path, [event("good", 1, 1), event("nowhere", 3, 1, tid=[1])]))
    assert lost(timeline) == {"malformed-events": 1}
    assert "`tid`" in sentence(timeline.health[0].remedy)


def test_malformed_events_of_a_minified_file_cost_themselves_only(tmp_path: Path) -> None:
    bad = '{"ph":"X","name":"a"+"b"}'
    text = '{"schemaVersion":1,"traceEvents":[' + ",".join([*good(20), bad, *good(20, 20), bad, *good(1, 40)]) + "]}"
    timeline = read_text(tmp_path, text.encode())
    assert len(timeline.table("host_events")) == 41
    assert lost(timeline) == {"malformed-events": 2}


@pytest.mark.slow
@pytest.mark.parametrize("minified", [True, False])
def test_a_quote_that_never_closes_takes_little_with_it(tmp_path: Path, minified: bool) -> None:
    events = [*good(200), '{"ph": "X", "name": "open}', *good(60_000, 200)]
    text = '{"traceEvents":[' + ",".join(events) + "]}" if minified else kineto_text(events).decode()
    timeline = read_text(tmp_path, text.encode())
    kept = len(timeline.table("host_events"))
    assert kept >= (60_000 if not minified else 30_000)
    assert set(lost(timeline)) & {"malformed-events", "truncated-file"}


def test_what_profilers_write_wrongly_is_repaired_and_counted(tmp_path: Path) -> None:
    args = '"args": {"device": 0, "stream": 7, "correlation": 3, "memory bandwidth (GB/s)": inf, "est. achieved occupancy %": nan, "x": }'
    bad = [
        '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 100, "dur": 5, ' + args + "}",
        '{"ph": "X", "cat": "cpu_op", "name": "C:\\path\\model.py", "pid": 1, "tid": 1, "ts": 100, "dur": 5}',
        '{"ph": "X", "cat": "cpu_op", "name": "two\nlines", "pid": 1, "tid": 1, "ts": 101, "dur": 5}',
    ]
    timeline = read_text(tmp_path, kineto_text([*good(5), *bad]))
    assert rows(timeline, "device_events", "name", "occupancy") == [("k", None)]
    names = [name for (name,) in rows(timeline, "host_events", "name")]
    assert {"C:\\path\\model.py", "two lines"} <= set(names)
    assert lost(timeline)["repaired-text"] >= 4
    assert "malformed-events" not in lost(timeline)


def test_bytes_that_are_no_text_are_replaced_and_counted(tmp_path: Path) -> None:
    text = kineto_text(good(5)).replace(b'"op2"', b'"op\xff\xfe2"')
    timeline = read_text(tmp_path, text)
    assert ("op\ufffd\ufffd2",) in rows(timeline, "host_events", "name")
    assert lost(timeline) == {"repaired-text": 2}


def test_a_lone_surrogate_in_a_name_is_kept_as_its_escape_and_counted(tmp_path: Path) -> None:
    names = [r"lone \ud800", r"reversed \uDE00\uD83D", r"a pair \ud83d\ude00", r"a letter \u00fc", r"escaped \\ud800"]
    bad = [f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": 100, "dur": 5}}' for name in names]

    timeline = read_text(tmp_path, kineto_text([*good(5), *bad]))

    read_names = {name for (name,) in rows(timeline, "host_events", "name")}
    assert {r"lone \ud800", r"reversed \uDE00\uD83D", "a pair \U0001f600", "a letter \xfc", r"escaped \ud800"} <= read_names
    assert lost(timeline) == {"repaired-text": 3}


def test_events_that_cannot_be_placed_are_counted_one_by_one(tmp_path: Path) -> None:
    events = [
        event("good", 100, 5),
        event("negative", 100, -5),
        event("no time", None, 5),
        {"ph": "X", "cat": "cpu_op", "name": "no time either", "dur": 5},
        event("never", 1e300, 5),
        event("open", 100, None),
        {"cat": "cpu_op", "name": "no phase", "ts": 1, "dur": 1},
        kernel(110, 5, 3, args={"registers per thread": 4294967295, "est. achieved occupancy %": 900}),
    ]
    timeline = read(written(tmp_path, events))
    assert rows(timeline, "host_events", "name") == [("good",)]
    assert rows(timeline, "device_events", "registers", "occupancy") == [(None, None)]
    assert lost(timeline) == {
        "negative-durations": 1,
        "events-without-time": 3,
        "events-without-duration": 1,
        "events-without-phase": 1,
        "garbage-registers": 1,
        "garbage-occupancy": 1,
    }


def test_repeated_events_count_once(tmp_path: Path) -> None:
    events = [event("a", 100, 5, args={"External id": 1}), launch(101, 2), kernel(110, 5, 2)]
    timeline = read(written(tmp_path, events * 3))
    assert (len(timeline.table("host_events")), len(timeline.table("device_events"))) == (2, 1)
    assert lost(timeline) == {"duplicate-events": 6}


def test_equal_events_without_numbers_are_not_called_repeated(tmp_path: Path) -> None:
    timeline = read(written(tmp_path, [event("f", 100, 0, "python_function")] * 2))
    assert len(timeline.table("host_events")) == 2
    assert lost(timeline) == {}


@pytest.mark.parametrize("depth", [100, 100_000])
def test_absurd_nesting_is_survived(tmp_path: Path, depth: int) -> None:
    nested = (
        '{"ph": "X", "cat": "cpu_op", "name": "deep", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"x": '
        + "[" * depth
        + "]" * depth
        + "}}"
    )
    timeline = read_text(tmp_path, kineto_text([*good(5), nested, *good(5, 5)]))
    assert len(timeline.table("host_events")) == (11 if depth == 100 else 10)
    assert lost(timeline) == ({} if depth == 100 else {"malformed-events": 1})


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"[[]]", b'{"traceEvents": []}', b'{"traceEvents": [', b'{"traceEvents": {}}', b"\x1f\x8b", b"\xff" * 9000]
)
def test_what_holds_no_event_is_said_in_a_sentence(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(UnreadableInput, match="Record it again"):
        read_text(tmp_path, text)


def test_broken_metadata_leaves_the_events(tmp_path: Path) -> None:
    timeline = read_text(tmp_path, kineto_text(good(3), ', "distributedInfo": {"rank": }, "x" "y"'))
    assert len(timeline.table("host_events")) == 3
    assert lost(timeline) == {"unreadable-metadata": 1}


def test_metadata_of_other_types_is_unknown(tmp_path: Path) -> None:
    timeline = read(written(tmp_path, [kernel(1, 1, 1)], distributedInfo="?", deviceProperties={"id": []}, host_name=3))
    assert (timeline.trace.rank, timeline.trace.host) == (None, None)
    unhashable = read(written(tmp_path, [kernel(1, 1, 1)], distributedInfo={"rank": "0"}, deviceProperties=[{"id": [1]}, {"id": 2**70}]))
    assert unhashable.table("trace_devices")["device"].to_list() == [0]


def test_an_event_longer_than_any_is_no_end(tmp_path: Path) -> None:
    long = json.dumps(event("x" * (EVENT_BYTES + 10), 1, 1))
    timeline = read_text(tmp_path, kineto_text([*good(3), long, *good(3, 3)]))
    assert len(timeline.table("host_events")) >= 6


def test_unexpected_types_are_expected_after_some_chunks() -> None:
    texts = [json.dumps({**event("a", 100 + i, 1), "dur": "1"}) for i in range(200)]
    whole = kineto_text(texts)
    reader = EventReader([whole[at : at + 2000] for at in range(0, len(whole), 2000)], Counter())
    assert sum(len(events) for events in reader) == 200
    assert reader._decode is decode_wide


@pytest.mark.parametrize("every", [1, 5])
def test_times_as_text_and_what_is_no_time_are_read_and_counted_in_every_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(kineto, "CHUNK_BYTES", 2000)
    odd = ["100", "soon", [1], {}]
    events = [event(f"a{i}", 100 + i if i % every else odd[i // every % len(odd)], 1) for i in range(200)]
    timeline = read(written(tmp_path, events))
    numbers = sum(i % every > 0 or odd[i // every % len(odd)] == "100" for i in range(200))
    assert timeline.count("host_events") == numbers
    assert lost(timeline)["events-without-time"] == 200 - numbers


@pytest.mark.parametrize(("elements", "group"), [(2**62, 2), (8, 2**40), (8, -1)])
def test_impossible_sizes_of_collectives_are_unknown(tmp_path: Path, elements: int, group: int) -> None:
    said = {"External id": 5, "Collective name": "allreduce", "In msg nelems": elements, "dtype": "Float", "Group size": group}
    events = [event("record_param_comms", 100, 9, args=said), launch(101, 3, args={"External id": 5})]
    events.append(kernel(110, 5, 3, args={"External id": 5}))
    timeline = read(written(tmp_path, events))
    assert rows(timeline, "device_events", "bytes", "group_size") == [(None if elements > 8 else 32, None if group != 2 else 2)]


@pytest.mark.parametrize("name", ["made.json", "made.json.gz"])
def test_a_file_that_was_cut_off_before_its_events_is_known_by_its_begin(tmp_path: Path, name: str) -> None:
    begin = b'{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {\n      "id": 0, "name": "NVID'
    path = raw(tmp_path, begin, name)

    assert SOURCE.sniff(begin, path)
    with pytest.raises(UnreadableInput, match="was cut off before the first whole event"):
        read(path)


def test_a_whole_object_without_events_is_something_elses(tmp_path: Path) -> None:
    manifest = b'{"schemaVersion": 2, "layers": [{"size": 1}]}'
    path = raw(tmp_path, manifest)

    assert not SOURCE.sniff(manifest, path)
    with pytest.raises(UnreadableInput, match="holds no list of trace events"):
        read(path)
