"""Which recordings were made here, which is the last, and what is said of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep.cli.commands import obey
from slowstep.errors import NoRecording, NothingRecorded
from slowstep.record.system import processes
from slowstep.record.system.facts import boot_id, process_ids
from slowstep.record.writing.format import LATER_STARTS_FOLDER
from slowstep.report.runs_table import show_runs
from slowstep.workflow.analyze import analyze
from slowstep.workflow.runs import last_run, row_of, runs_document, runs_here


def recorded(folder: Path, started: str, **process: object) -> Path:
    make_recording(folder, Training(steps=3))
    notes = [json.loads(line) for line in (folder / "launcher.jsonl").read_text().splitlines()]
    for note in notes:
        if note["kind"] == "run":
            note["started"] = started
        if note["kind"] == "process":
            note |= process
    (folder / "launcher.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    return folder


def reported(folder: Path, **report: object) -> Path:
    (folder / "report.json").write_text(json.dumps(report))
    return folder


@pytest.mark.parametrize("folder", [".", "slowstep_runs"])
def test_without_a_recording_it_is_said_how_to_make_one(tmp_path, folder):
    with pytest.raises(NoRecording, match=r"slowstep run train\.py"):
        last_run(tmp_path / folder)


def test_a_recording_has_its_name_inside_its_own_folder_too(tmp_path, monkeypatch):
    monkeypatch.chdir(recorded(tmp_path / "slowstep_runs" / "a", "2026-11-27T12:00:01+00:00"))

    assert [row_of(run).name for run in runs_here(Path())] == ["a"]


def test_the_last_is_the_one_that_was_begun_last_whatever_it_is_called(tmp_path):
    runs = tmp_path / "slowstep_runs"
    last = recorded(runs / "a", "2026-11-27T12:00:01+00:00")
    recorded(runs / "b", "2026-11-27T12:00:00+00:00")
    of_job = recorded(runs / "job-7" / "host-rank0-1", "2026-11-27T13:00:00+02:00")

    assert last_run(tmp_path) == last_run(runs) == last
    assert runs_here(tmp_path)[0] == of_job


def test_of_one_second_the_higher_number_is_the_later(tmp_path):
    for name in ("x", "x-2", "x-10", "x-9"):
        recorded(tmp_path / name, "2026-11-27T12:00:00+00:00")

    assert [run.name for run in runs_here(tmp_path)] == ["x", "x-2", "x-9", "x-10"]


def test_what_a_dead_run_left_without_recording_anything_is_no_run(tmp_path):
    for name in ("inject", "control"):
        (tmp_path / "slowstep_runs" / "only-leftovers").mkdir(parents=True, exist_ok=True)
        (tmp_path / "slowstep_runs" / "only-leftovers" / name).mkdir()
    never = recorded(tmp_path / "slowstep_runs" / "never-trained", "2026-11-27T12:00:00+00:00")
    for file in never.iterdir():
        if file.stem != "launcher":
            file.unlink()

    assert runs_here(tmp_path) == []


def test_a_row_says_what_the_report_says(tmp_path):
    folder = reported(
        recorded(tmp_path / "x", "2026-11-27T12:00:00+00:00"),
        run={"steps": 80, "recorded_steps": 100},
        throughput={"samples_per_s": 123.0, "steps_per_s": 4.0},
        verdict={"state": "bottleneck", "rule": "serial-loader"},
        findings=[{"gain": {"predicted": 2.0, "measured": {"value": 1.8}}}],
    )

    row = row_of(folder)

    assert (row.state, row.steps, row.samples_per_s, row.verdict, row.rule, row.gain) == (
        "reported",
        100,
        123.0,
        "bottleneck",
        "serial-loader",
        1.8,
    )
    assert row.size_bytes > 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"run": 3, "throughput": [], "verdict": {"state": 1}, "findings": [2]}', '{"findings": {"a": 1}}']
)
def test_a_damaged_report_leaves_its_facts_unknown(tmp_path, text):
    folder = recorded(tmp_path / "x", "yesterday")
    (folder / "report.json").write_text(text)

    row = row_of(folder)

    assert (row.steps, row.samples_per_s, row.verdict, row.rule, row.gain) == (None, None, None, None, None)


def test_a_run_is_going_on_as_long_as_its_launcher_lives(tmp_path):
    stat = processes.read_stat(os.getpid())
    now_ns = int(processes.started_s(stat) * 1e9) + 5_000_000_000
    mine = {"pid": os.getpid(), "boot_id": boot_id(), "realtime_ns": now_ns}
    living = recorded(tmp_path / "a", "2026-11-27T12:00:00+00:00", **mine)
    elsewhere = recorded(tmp_path / "b", "2026-11-27T12:00:00+00:00", **mine | {"boot_id": "another"})
    number_reused = recorded(tmp_path / "c", "2026-11-27T12:00:00+00:00", **mine | {"realtime_ns": now_ns - 60_000_000_000})
    for folder in (living, elsewhere, number_reused):
        (folder / "control").touch()

    assert [row_of(folder).state for folder in (living, elsewhere, number_reused)] == ["recording", "unreported", "unreported"]


def test_a_proof_is_going_on_while_a_later_start_of_its_script_is_recorded(tmp_path):
    stat = processes.read_stat(os.getpid())
    mine = {"pid": os.getpid(), "boot_id": boot_id(), "realtime_ns": int(processes.started_s(stat) * 1e9) + 5_000_000_000}
    folder = recorded(tmp_path / "a", "2026-11-27T12:00:00+00:00", **mine)
    later = recorded(folder / LATER_STARTS_FOLDER / "2", "2026-11-27T12:00:30+00:00", **mine)

    assert row_of(folder).state == "unreported"
    (later / "control").touch()
    assert row_of(folder).state == "recording"


def test_leftovers_of_a_later_start_are_removed_when_its_proof_is_looked_at(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    folder = recorded(tmp_path / "a", "2026-11-27T12:00:00+00:00")
    dead = {"pid": process.pid, "boot_id": boot_id(), "process_ids": process_ids()}
    later = recorded(folder / LATER_STARTS_FOLDER / "2", "2026-11-27T12:00:30+00:00", **dead)
    for file in later.glob("100-*"):
        # A process of this number may live here.
        file.unlink()
    (later / "control").touch()

    analyze([folder])

    assert not (later / "control").exists()


def test_of_a_run_that_is_going_on_it_is_not_said_that_nothing_was_recorded(tmp_path):
    stat = processes.read_stat(os.getpid())
    now_ns = int(processes.started_s(stat) * 1e9) + 5_000_000_000
    mine = {"pid": os.getpid(), "boot_id": boot_id(), "realtime_ns": now_ns}
    folder = recorded(tmp_path / "a", "2026-11-27T12:00:00+00:00", **mine)
    for file in [each for each in folder.iterdir() if each.name != "launcher.jsonl"]:
        file.unlink()
    (folder / "control").touch()

    with pytest.raises(NothingRecorded, match=r"a is being recorded now, and has no steps .*: slowstep analyze .*a$"):
        analyze([folder])
    (folder / "control").unlink()
    with pytest.raises(NothingRecorded, match="no training step"):
        analyze([folder])


def test_the_table_fits_every_width_and_keeps_name_and_verdict(tmp_path, monkeypatch):
    folder = recorded(tmp_path / "20261127-120000-a_script_with_a_very_long_name_that_goes_on_and_on", "2026-11-27T12:00:00+00:00")
    rows = runs_document(tmp_path, [row_of(folder)])["runs"]

    for width in (40, 60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        stream = StringIO()
        show_runs(rows, stream, command="slowstep analyze")
        table, _, _ = stream.getvalue().partition("\n\n")
        assert max(map(len, table.splitlines())) <= width
        assert "no report yet" in table
        assert "goes_on_and_on" in table
        assert (folder.name in table) is (width >= len(folder.name))
    assert "27 Nov 12:00" in table


def test_the_command_lists_the_newest_first_and_writes_the_same_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, started in (("a", "2026-11-27T12:00:00+00:00"), ("b", "2026-11-27T13:00:00+00:00")):
        recorded(Path("slowstep_runs") / name, started)

    assert obey(["runs"]) == 0
    assert "slowstep analyze slowstep_runs/b" in capsys.readouterr().out
    assert obey(["runs", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert document["schema"] == "slowstep/runs/1"
    assert [run["name"] for run in document["runs"]] == ["b", "a"]
    assert document["runs"][0]["path"] == str(tmp_path / "slowstep_runs" / "b")
