"""A recording of which something is missing says what and how much; one whose process was killed is whole up to then."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.errors import NothingRecorded
from slowstep.health import Health
from slowstep.reason_words import sentence
from slowstep.record.writing import format as fmt
from slowstep.record.writing.storage import GRANULE_BYTES, SPARE_BYTES
from slowstep.sources.recording import read
from slowstep.workflow.diagnose_recordings import diagnose_recording

BYTES = fmt.RECORD_BYTES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_recording(tmp_path / "run", Training(steps=200, workers=0, after_ms=5))
    file = made / "100-1.rec"
    # As a recorder leaves it, that has given back what it had reserved.
    file.write_bytes(file.read_bytes().rstrip(b"\0") + b"\0" * (-len(file.read_bytes().rstrip(b"\0")) % BYTES))
    say(made, {"kind": "cost", "event_ns": 400.0, "events": records(made), "records": records(made), "sampler_cpu_ns": 1_000_000})
    return made


def records(folder: Path) -> int:
    return (folder / "100-1.rec").stat().st_size // BYTES


def say(folder: Path, *notes: dict[str, object], name: str = "100-1") -> None:
    with (folder / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(note) + "\n" for note in notes)


def drop(folder: Path, kind: str, name: str = "100-1") -> None:
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines if json.loads(line)["kind"] != kind))


def cut(folder: Path, kept: int, name: str = "100-1") -> None:
    file = folder / f"{name}.rec"
    file.write_bytes(file.read_bytes()[: kept * BYTES])


def doubts(folder: Path) -> dict[str, Health]:
    return {row.name: row for row in read(folder).health}


def test_a_whole_recording_lacks_nothing(folder: Path) -> None:
    assert doubts(folder) == {}


def test_of_a_file_that_was_cut_the_missing_records_are_counted(folder: Path) -> None:
    whole = records(folder)

    cut(folder, whole // 2)

    lost = doubts(folder)["missing-records"]
    assert (lost.count, lost.severity) == (whole - whole // 2, "data_loss")
    assert f"{lost.count:,} of " in sentence(lost.remedy)


def test_one_missing_record_of_a_recording_that_has_its_end_is_seen(folder: Path) -> None:
    cut(folder, records(folder) - 1)

    assert doubts(folder)["missing-records"].count == 1


def test_a_slot_that_a_thread_had_taken_when_the_recording_ended_is_no_damage(folder: Path) -> None:
    file = folder / "100-1.rec"

    file.write_bytes(file.read_bytes()[:-BYTES] + bytes(BYTES))

    assert doubts(folder) == {}


def test_an_older_recording_that_counted_events_only_tells_as_much(folder: Path) -> None:
    whole = records(folder)
    say(folder, {"kind": "health", "name": "lost_events", "severity": "data_loss", "count": 7, "remedy": "nothing to do"})
    say(folder, {"kind": "cost", "event_ns": 400.0, "events": whole + 7, "sampler_cpu_ns": 1000})
    assert "missing-records" not in doubts(folder)

    cut(folder, whole - 10)

    assert doubts(folder)["missing-records"].count == 10


def test_the_cost_of_what_is_missing_is_not_charged_to_the_steps_that_are_left(folder: Path) -> None:
    before = diagnose_recording(folder)["overhead"]["us_per_step"]

    cut(folder, records(folder) // 2)

    assert diagnose_recording(folder)["overhead"]["us_per_step"] == pytest.approx(before, rel=0.1)


@pytest.mark.parametrize("last", [0, 30])
def test_a_killed_process_has_lost_nothing(folder: Path, last: int) -> None:
    # What it had counted some seconds before, in a file that ends with what was reserved.
    drop(folder, "end")
    say(folder, {"kind": "cost", "event_ns": 400.0, "events": records(folder) - last, "records": records(folder) - last})
    file = folder / "100-1.rec"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes() + bytes(GRANULE_BYTES - size % GRANULE_BYTES + SPARE_BYTES))

    assert doubts(folder) == {}


def test_a_killed_process_may_take_what_it_had_not_written_yet_with_it(folder: Path) -> None:
    drop(folder, "end")

    cut(folder, records(folder) - 60)

    assert doubts(folder).keys() == {"early-end"}


def test_what_a_full_disk_did_not_take_is_no_damage(folder: Path) -> None:
    drop(folder, "end")
    say(folder, {"kind": "health", "name": "disk-full", "severity": "data_loss", "count": 1, "remedy": "free some space"})
    say(folder, {"kind": "end", "reason": "disk full"})

    cut(folder, records(folder) - 60)

    assert doubts(folder).keys() == {"disk-full"}


def test_a_killed_process_whose_file_was_cut_says_so(folder: Path) -> None:
    drop(folder, "end")

    cut(folder, records(folder) // 2)

    assert doubts(folder).keys() == {"missing-records"}


def test_where_nothing_tells_a_kill_from_a_cut_both_are_named_once_the_run_is_over(folder: Path) -> None:
    drop(folder, "end")

    (said,) = doubts(folder).values()
    assert (said.name, said.severity) == ("early-end", "notice")
    drop(folder, "exit", name="launcher")
    assert doubts(folder) == {}


def test_readings_of_the_launcher_that_are_missing_are_counted_too(folder: Path) -> None:
    drop(folder, "exit", name="launcher")
    say(folder, {"kind": "exit", "code": 0, "ended_ns": 10**15, "records": 500}, name="launcher")
    cut(folder, 0, name="launcher")

    assert doubts(folder)["missing-records"].count == 500


def write_costs(folder: Path, *readings: tuple[int, int]) -> None:
    """What the launcher used of a processor, as readings of an instant and a sum."""
    lines = [fmt.RECORD.pack(at, at, used, 0, 0, 0, 0, 0, fmt.READING_COST) for at, used in readings]
    (folder / "launcher.rec").write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("readings", "sound"),
    [
        ([(10, 1), (20, 2), (30, 2)], [(10, 1), (20, 2), (30, 2)]),
        ([(10, 1), (20, 7), (20, 2), (30, 3)], [(10, 1), (20, 2), (30, 3)]),
        ([(10, 1), (20, 900), (30, 2), (40, 3)], [(10, 1), (30, 2), (40, 3)]),
        ([(10, 5), (20, 6), (30, 0), (40, 7)], [(10, 5), (20, 6), (40, 7)]),
        ([(10, 900), (20, 800), (30, 1), (40, 2)], [(30, 1), (40, 2)]),
        ([(30, 3), (10, 1), (20, 2)], [(30, 3), (10, 1), (20, 2)]),
        ([], []),
    ],
)
def test_readings_that_no_launcher_can_have_taken_are_left_out_and_counted(folder: Path, readings: Any, sound: Any) -> None:
    write_costs(folder, *readings)

    timeline = read(folder)

    assert timeline.table("launcher_costs").rows() == sound
    left_out = len(readings) - len(sound)
    assert [(row.name, row.count) for row in timeline.health] == ([("malformed-records", left_out)] if left_out else [])


def test_readings_of_several_processes_at_one_instant_are_no_damage_and_of_the_largest_there_is_one(folder: Path) -> None:
    made = [fmt.RECORD.pack(10, 10, 2, 1, 0, pid, 0, 0, kind) for kind in (fmt.READING_AFFINITY, fmt.READING_RSS) for pid in (100, 101)]
    (folder / "launcher.rec").write_bytes(b"".join(made))

    timeline = read(folder)

    assert timeline.table("affinities")["pid"].to_list() == [100, 101]
    assert timeline.table("tree_memory")["largest_pid"].to_list() == [101]
    assert doubts(folder)["malformed-records"].count == 1


def test_what_the_kernel_counts_may_go_back(folder: Path) -> None:
    made = [fmt.RECORD.pack(at, at, 10, 20, stolen, 0, 0, 0, fmt.READING_CPU) for at, stolen in ((10, 5), (20, 4))]
    (folder / "launcher.rec").write_bytes(b"".join(made))

    assert read(folder).table("readings")["stolen_cpu_ns"].to_list() == [5, 4]
    assert doubts(folder) == {}


def _write_over(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(10 * BYTES) + data[at + 10 * BYTES :]


def _insert(data: bytes, at: int) -> bytes:
    return data[:at] + b"nonsense" + data[at:]


def _take_out(data: bytes, at: int) -> bytes:
    return data[:at] + data[at + 100 :]


def _end_in_nonsense(data: bytes, at: int) -> bytes:
    return data[:at] + b"nonsense".ljust(BYTES, b"!")


@pytest.mark.parametrize(
    ("change", "damaged"), [(_write_over, 10), (_insert, None), (_take_out, None)], ids=["written over", "put in", "taken out"]
)
def test_what_was_moved_or_written_over_is_damaged_and_was_not_being_written(
    folder: Path, change: Callable[[bytes, int], bytes], damaged: int | None
) -> None:
    file, whole = folder / "100-1.rec", records(folder)

    file.write_bytes(change(file.read_bytes(), whole // 2 * BYTES))

    found = doubts(folder)
    assert "torn-records" not in found
    # All that comes behind it stands at other places than records do.
    assert found["malformed-records"].count == (damaged or pytest.approx(whole / 2, abs=5))
    assert "missing-records" not in found or found["missing-records"].count <= 3


def test_nonsense_in_the_place_of_half_a_file_is_damaged_and_the_rest_missing(folder: Path) -> None:
    file, whole = folder / "100-1.rec", records(folder)

    file.write_bytes(_end_in_nonsense(file.read_bytes(), whole // 2 * BYTES))

    assert {name: row.count for name, row in doubts(folder).items()} == {
        "missing-records": whole - whole // 2 - 1,
        "malformed-records": 1,
    }


def test_a_record_of_each_thread_may_be_unfinished_where_the_process_was_killed(folder: Path) -> None:
    drop(folder, "end")
    file = folder / "100-1.rec"
    data = file.read_bytes()

    file.write_bytes(data[: -2 * BYTES] + bytes(BYTES) + data[-BYTES:])

    assert doubts(folder).keys() == {"torn-records", "early-end"}


def _remove(file: Path) -> None:
    file.unlink()


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _randomize(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(file.stat().st_size))


@pytest.mark.parametrize(("damage", "name"), [(_remove, "missing-records"), (_empty, "missing-records"), (_randomize, "malformed-records")])
def test_a_recording_without_its_records_does_not_say_that_nothing_trained(folder: Path, damage: Callable[[Path], None], name: str) -> None:
    say(folder, {"kind": "exit", "code": 130, "ended_ns": 10**15, "received": ["SIGINT"]}, name="launcher")
    whole = records(folder)

    damage(folder / "100-1.rec")

    assert doubts(folder)[name].count >= 0.95 * whole
    with pytest.raises(NothingRecorded, match="the recording is damaged") as raised:
        diagnose_recording(folder)
    assert "before any update" not in str(raised.value)


@pytest.mark.parametrize("damage", [_remove, _empty])
def test_records_whose_notes_are_gone_are_said(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(folder / "100-1.jsonl")

    assert doubts(folder)["missing-notes"].severity == "data_loss"


def test_a_recording_of_which_all_processes_are_gone_does_not_say_that_nothing_trained(folder: Path) -> None:
    drop(folder, "exit", name="launcher")
    say(folder, {"kind": "exit", "code": 130, "ended_ns": 10**15, "received": ["SIGINT"], "processes": 1}, name="launcher")
    assert doubts(folder) == {}

    for file in folder.glob("100-1.*"):
        file.unlink()

    assert doubts(folder)["missing-processes"].count == 1
    with pytest.raises(NothingRecorded, match="the recording is damaged"):
        diagnose_recording(folder)


def test_a_recording_whose_launcher_is_gone_says_so(folder: Path) -> None:
    for file in folder.glob("launcher.*"):
        file.unlink()

    assert doubts(folder).keys() == {"missing-launcher"}


def test_garbage_in_place_of_the_notes_is_no_half_written_line(folder: Path) -> None:
    for file in folder.glob("*.jsonl"):
        _randomize(file)

    assert doubts(folder)["malformed-notes"].severity == "data_loss"


def test_what_cannot_be_named_for_damaged_notes_is_no_matter_of_cores_or_time(tmp_path: Path) -> None:
    made = make_recording(tmp_path / "run", Training(steps=200, after_ms=15, drop_training_frame=True))
    notes = made / "100-1.jsonl"
    notes.write_text(f"\ufffd damaged\n{notes.read_text()}")

    report = diagnose_recording(made)

    assert "the recording is damaged (1 line of its notes make" in report["verdict"]["summary"]
    assert report["run"]["before_next"].startswith("record again: this recording is damaged")
    assert "no-stacks" not in {row["name"] for row in report["health"]}
