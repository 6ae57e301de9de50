from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_events import Events
from made_recordings import Training, make_recording
from slowstep.document.validity import faults
from slowstep.errors import UnreadableInput
from slowstep.reason_words import sentence
from slowstep.record.writing import format as fmt
from slowstep.record.writing.health_kinds import LATE_STACKS
from slowstep.sources._recording.notes import NoteLines
from slowstep.sources.recording import SOURCE, read
from slowstep.timeline.schema import RECORDING_TABLES
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.diagnose_recordings import diagnose_recording

RECORD = fmt.RECORD_BYTES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_recording(tmp_path / "run", Training(steps=60, epoch_steps=20, after_ms=5, saves=(10, 5), validation=(20, 10)))


def _health(timeline: Timeline) -> dict[str, int]:
    return {row.name: row.count for row in timeline.health}


def _edit(file: Path, number: int, **fields: int) -> None:
    """Change fields of one record of a file."""
    raw = bytearray(file.read_bytes())
    values = dict(zip(fmt.FIELDS, fmt.RECORD.unpack_from(raw, number * RECORD), strict=True)) | fields
    fmt.RECORD.pack_into(raw, number * RECORD, *values.values())
    file.write_bytes(bytes(raw))


def _append(file: Path, *lines: object) -> None:
    with file.open("a") as stream:
        stream.writelines(line + "\n" if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)


def test_every_declared_table_is_there_with_its_columns(folder):
    timeline = read(folder)

    for table in RECORDING_TABLES:
        assert dict(timeline.table(table.name).schema).keys() == table.schema.keys()


def test_a_whole_recording_has_no_doubts(folder):
    assert _health(read(folder)) == {}


def test_reserved_space_at_the_end_is_no_torn_record(folder):
    file = folder / "100-1.rec"
    file.write_bytes(file.read_bytes() + bytes(RECORD * 1000))

    assert _health(read(folder)) == {}


@pytest.mark.parametrize(
    "number",
    [pytest.param(0, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.slow), -1],
    ids=["first", "inside", "at the end"],
)
def test_a_torn_record_is_left_out_and_counted(folder, number):
    file = folder / "100-1.rec"
    finished = -(-len(file.read_bytes().rstrip(b"\0")) // RECORD)
    before = sum(read(folder).table(table.name).height for table in RECORDING_TABLES)
    _edit(file, number % finished, kind=0)

    timeline = read(folder)

    assert _health(timeline) == {"torn-records": 1}
    assert sum(timeline.table(table.name).height for table in RECORDING_TABLES) == before - 1


def test_a_file_that_ends_in_the_middle_of_a_record_loses_only_that_one(folder):
    file = folder / "100-1.rec"
    file.write_bytes(file.read_bytes()[: RECORD * 50 + 20])

    assert (
        sum(read(folder).table(name).filter(process=0).height for name in ("waits", "updates", "spans", "cpu_marks", "starts", "stacks"))
        <= 50
    )


def test_a_record_that_ends_before_it_begins_is_left_out_and_counted(folder):
    _edit(folder / "100-1.rec", 20, t0=2**62)
    _edit(folder / "100-1.rec", 21, t1=2**64 - 1)

    timeline = read(folder)

    assert _health(timeline) == {"malformed-records": 2}
    assert next(row.severity for row in timeline.health) == "data_loss"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (fmt.READING_MEMORY, (0, 0, 0)),
        (fmt.READING_GROUP_MEMORY, (5, 0, 0)),
        (fmt.READING_CPU, (2**62, 0, 0)),
        (fmt.READING_RSS, (-2, 0, 0)),
    ],
    ids=["a machine without memory", "a limit of nothing", "a counter that no sum can hold", "less than unknown"],
)
def test_a_record_of_what_cannot_be_is_left_out_and_counted(folder, kind, values):
    with (folder / "launcher.rec").open("r+b") as file:
        kept = file.read().rstrip(b"\0")
        file.seek(-(-len(kept) // RECORD) * RECORD)
        file.write(fmt.RECORD.pack(10**9, 10**9, *values, 0, 0, 0, kind))

    assert _health(read(folder)) == {"malformed-records": 1}


def test_the_clock_of_the_day_is_nothing_that_cannot_be(folder):
    today_ns = 1_795_795_804_376_181_783
    _append(folder / "100-1.jsonl", {"kind": "process", "realtime_ns": today_ns})
    with (folder / "launcher.rec").open("r+b") as file:
        kept = file.read().rstrip(b"\0")
        file.seek(-(-len(kept) // RECORD) * RECORD)
        file.write(fmt.RECORD.pack(10**9, 10**9, today_ns, 0, 0, 0, 0, 0, fmt.CLOCK))

    assert _health(read(folder)) == {}


def _combine_steps(file: Path) -> int:
    """Write every step of a training's file that is a WAIT, a BACKWARD and an UPDATE as one record, where the last of them stood."""
    rows = [row for row in fmt.RECORD.iter_unpack(file.read_bytes()) if row[8]]
    rows.sort(key=lambda row: row[1])
    kept, held = [], {}
    for row in rows:
        t0, t1, a, _, _, thread, flags, _, kind = row
        if kind in (fmt.WAIT, fmt.BACKWARD) and not flags:
            kept += [held.pop(kind)] if kind in held else []
            held[kind] = row
        elif kind == fmt.UPDATE and len(held) == 2:
            wait, backward = held.pop(fmt.WAIT), held.pop(fmt.BACKWARD)
            began = wait[0]
            ns = (wait[1] - began, backward[0] - began, backward[1] - backward[0], t0 - began)
            kept.append(fmt.STEP_RECORD.pack(began, t1, *ns, wait[3], wait[2], thread, wait[4], a, fmt.STEP))
        else:
            kept.append(row)
    kept += held.values()
    file.write_bytes(b"".join(row if isinstance(row, bytes) else fmt.RECORD.pack(*row) for row in kept))
    _append(file.with_suffix(".jsonl"), {"kind": "cost", "events": len(kept), "records": len(kept)})
    return sum(isinstance(row, bytes) for row in kept)


@pytest.fixture
def serial(tmp_path: Path) -> Path:
    folder = make_recording(tmp_path / "serial", Training(steps=60, workers=0, epoch_steps=20, after_ms=5, validation=(20, 10)))
    file = folder / "100-1.rec"
    for number, row in enumerate(fmt.RECORD.iter_unpack(file.read_bytes())):
        if row[8] == fmt.WAIT:
            # As the recorder writes it of a loader without workers.
            _edit(file, number, extra=fmt.READY_UNKNOWN)
    return folder


def test_steps_in_one_record_each_are_read_like_steps_in_three(serial):
    file = serial / "100-1.rec"
    before = read(serial)

    combined = _combine_steps(file)

    after = read(serial)
    assert combined == before.table("updates").height
    for table in RECORDING_TABLES:
        assert after.table(table.name).equals(before.table(table.name)), table.name
    assert _health(after) == {}


def test_events_that_were_counted_are_three_for_a_step_in_one_record(serial):
    file = serial / "100-1.rec"
    counted = sum(row[8] != 0 for row in fmt.RECORD.iter_unpack(file.read_bytes()))
    combined = _combine_steps(file)
    # So many more were only counted, those of steps that were left out.
    _append(serial / "100-1.jsonl", {"kind": "cost", "events": counted - 2 * combined + 1000, "records": counted - 2 * combined})

    assert read(serial).processes[0].events == counted + 1000


@pytest.mark.parametrize("part", range(4), ids=["wait", "begin of backward", "backward", "begin of update"])
def test_a_step_with_a_part_that_ends_after_it_is_left_out_and_counted(serial, part):
    file = serial / "100-1.rec"
    combined = _combine_steps(file)
    raw = bytearray(file.read_bytes())
    at = next(at for at in range(0, len(raw), RECORD) if raw[at + RECORD - 1] == fmt.STEP)
    fields = list(fmt.STEP_RECORD.unpack_from(raw, at))
    fields[2 + part] = 2**32 - 1
    fmt.STEP_RECORD.pack_into(raw, at, *fields)
    file.write_bytes(bytes(raw))

    timeline = read(serial)

    assert _health(timeline) == {"malformed-records": 1}
    assert timeline.table("updates").height == combined - 1


def test_kinds_of_a_later_version_are_passed_over(folder):
    before = read(folder).table("updates").height
    _append(folder / "100-1.jsonl", {"kind": "from the future", "x": 1})
    raw = (folder / "100-1.rec").read_bytes().rstrip(b"\0")
    extra = fmt.RECORD.pack(10**12, 10**12, 0, 0, 0, 100, 0, 0, 200)
    (folder / "100-1.rec").write_bytes(raw + bytes(-len(raw) % RECORD) + extra)

    assert read(folder).table("updates").height == before


MALFORMED = [
    '{"kind": "text", "id": 5, "te',
    "\x00\x01\x02",
    "[1, 2]",
    '{"kind": "text", "id": "five", "text": "x"}',
    '{"kind": "frame", "id": 900}',
    '{"kind": "stack", "id": 900}',
    '{"kind": "stack", "id": 900, "frames": [[]]}',
    '{"kind": "run", "command": 7}',
    '{"kind": "process", "pid": {}}',
    '{"kind": "health", "count": "many"}',
    '{"kind": "exit", "ended_ns": "now"}',
    f'{{"kind": "graph", "nodes": {2**80}}}',
    '{"kind": "calls", "of": "body", "stretches": 1, "functions": [], "began_ns": ["soon"]}',
    '{"kind": "calls", "of": "body", "stretches": 1, "functions": [], "began_ns": 5}',
    '{"kind": "calls", "of": "body", "stretches": 1, "functions": [], "wall_ns": -1}',
    '{"kind": "loops", "functions": []}',
    '{"kind": "loops", "optimizer": 1, "functions": [["train.py", "fit", 1, [[2]]]]}',
    '{"kind": "loops", "optimizer": 1, "functions": [["train.py", "fit", 1, [["2", "5"]]]]}',
    '{"kind": "training_frame", "optimizer": "x", "file": "a", "function": "b", "first_line": 1, "line": 2}',
    '{"kind": "batch", "tensors": 1, "bytes": 5, "spare_bytes": 0, "types": {}, "array_bytes": "many"}',
    f'{{"kind": "lines", "of": "body", "lines": [], "counting_ns": {2**63}}}',
    '{"kind": "lines", "of": "body", "lines": [], "complete": 3}',
    '{"kind": "lines", "of": ["body"], "lines": []}',
    '{"kind": "hook", "name": {"a": 1}, "state": "off"}',
    '{"kind": "cost", "event_ns": NaN, "events": 5}',
    '{"kind": "graph", "nodes": true}',
    '{"kind": "process", "env": {"RANK": ["0"]}}',
    f'{{"kind": "facts", "accelerators": {{"cuda": {2**64}}}}}',
    "[" * 100_000,
    '{"kind": "operations", "framework": "tensorflow", "function": 1}',
    '{"kind": "operations", "framework": "tensorflow", "function": 1, "fewest": -1}',
    '{"kind": "operations", "framework": "tensorflow", "function": 1, "fewest": 1, "most": "many"}',
    '{"kind": "loops_around", "optimizer": 1, "functions": [["train.py", "fit", 1, [[2]]]]}',
]


@pytest.mark.parametrize("line", MALFORMED)
@pytest.mark.parametrize(("end", "name", "severity"), [("\n", "malformed-notes", "data_loss"), ("", "torn-notes", "notice")])
def test_a_torn_or_malformed_line_is_counted_and_the_rest_is_read(folder, line, end, name, severity):
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.write(line + end)

    timeline = read(folder)

    assert [(row.name, row.count, row.severity) for row in timeline.health] == [(name, 1, severity)]
    assert timeline.processes[0].framework_version == "2.13.0"


def test_a_value_that_is_null_is_not_known(folder):
    place = {"file": "train.py", "function": "main", "first_line": 1, "line": 2}
    _append(
        folder / "100-1.jsonl",
        {"kind": "process", "format": None},
        {"kind": "training_frame", "optimizer": None, **place},
        {"kind": "calls", "of": "body", "stretches": 1, "functions": [], "began_ns": None},
        {"kind": "lines", "of": None, "lines": [], "functions": []},
    )

    timeline = read(folder)

    assert _health(timeline) == {}
    assert timeline.processes[0].training_frames[0].file == "train.py"


def test_a_newer_format_is_said_with_the_remedy(folder):
    _append(folder / "100-1.jsonl", {"kind": "process", "format": 99})

    rows = {row.name: row for row in read(folder).health}

    assert rows["newer-format"].severity == "error"
    assert "upgrade slowstep" in sentence(rows["newer-format"].remedy)


def test_notes_without_records_are_a_process_without_events(folder):
    (folder / "200-1.rec").unlink()

    timeline = read(folder)

    assert timeline.table("processes")["role"].to_list().count("worker") == 1
    assert timeline.table("fetches").is_empty()


def test_records_whose_notes_are_lost_do_not_stop_the_reading(folder):
    (folder / "200-1.jsonl").unlink()

    assert read(folder).table("fetches").is_empty()


def test_a_folder_of_notes_alone_is_told_apart_from_none(tmp_path):
    with pytest.raises(UnreadableInput, match="is not a recording"):
        read(tmp_path)


def test_hooks_that_are_off_are_health(folder):
    _append(folder / "100-1.jsonl", {"kind": "hook", "name": "torch_backward", "state": "off", "reason": "torch has no autograd"})

    row = next(row for row in read(folder).health if row.name == "not-recorded:torch-backward")

    assert sentence(row.remedy) == "torch has no autograd; what it would show is missing"


def test_names_of_older_recordings_are_written_as_all_others(folder):
    _append(folder / "100-1.jsonl", {"kind": "health", "name": "late_stacks", "severity": "info", "count": 3, "remedy": "it was busy"})

    assert [row.count for row in read(folder).health if row.name == LATE_STACKS.name] == [3]


def test_health_of_several_processes_is_added(folder):
    for name, count in (("100-1", 2), ("200-1", 3)):
        _append(folder / f"{name}.jsonl", {"kind": "health", "name": "dropped", "severity": "data_loss", "count": count, "remedy": "r"})

    assert _health(read(folder)) == {"dropped": 5}


def test_unknown_values_are_null_and_never_minus_one(tmp_path):
    events = Events(tmp_path)
    events.wait(0, 1, samples=-1)
    events.fetch(0, 1, 0, worker=0, cpu=1)
    timeline = events.timeline()

    assert timeline.table("waits").select("samples", "ready").row(0) == (None, None)
    assert timeline.table("fetches")["iterator"].to_list() == [None]


def test_a_process_without_an_end_was_killed(folder):
    lines = (folder / "200-1.jsonl").read_text() + '{"kind": "end"}\n'
    (folder / "200-1.jsonl").write_text(lines)
    trainer = (folder / "100-1.jsonl").read_text().replace('{"kind": "end", "reason": "exit"}\n', "")
    (folder / "100-1.jsonl").write_text(trainer)

    assert dict(read(folder).table("processes").select("role", "ended").iter_rows()) == {"trainer": False, "worker": True}


def test_readings_taken_twice_or_at_one_instant_break_nothing(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(40):
        events.step(10 * k, batch=k)
    for _ in range(3):
        events.reading(200, 5, 9)
        events.mark(210, 1, 1)

    assert faults(diagnose_recording(events.close())) == []


def test_the_source_takes_folders_only(folder):
    assert SOURCE.sniff(b"", folder)
    assert not SOURCE.sniff(b"{", folder / "100-1.jsonl")


@pytest.mark.parametrize(("kinds", "found"), [(["request"], {"fetch": 1}), (["fetch", "request"], {"fetch": 0}), (["gap"], {"gap": 0})])
def test_timed_requests_stand_for_fetches_where_no_loader_was_looked_into(kinds: list[str], found: dict[str, int]) -> None:
    lines = [{"kind": "calls", "of": kind, "stretches": int(kind == "request")} for kind in kinds]

    notes = NoteLines(lines={"calls": lines}, texts={}, places={}, health=())

    assert {note["of"]: note["stretches"] for note in notes.timed_calls()} == found
