"""A recording that holds an experiment is read up to where that began."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_recordings import START_NS, Training, make_recording
from slowstep.prove.experiment import Experiment, SandboxPlace, save
from slowstep.record.writing.format import EXPERIMENT_FILE
from slowstep.sources._source import PLAIN
from slowstep.sources.recording import SOURCE
from slowstep.workflow.diagnose_recordings import diagnose_recording

CUT_NS = START_NS + 2_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_recording(tmp_path / "recording", Training(steps=200, workers=2, after_ms=5))


def append(path: Path, **note: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(note) + "\n")


def test_a_plain_recording_is_read_whole(folder):
    timeline = SOURCE.read(folder, PLAIN)

    assert timeline.table("updates").height == 200
    assert timeline.run.exit_code == 0


@pytest.mark.parametrize("by", ["the one who made the experiment", "the posting of its plan", "both"])
def test_what_comes_after_the_cut_is_left_out_of_every_table(folder, by):
    if by != "the posting of its plan":
        (folder / EXPERIMENT_FILE).write_text(json.dumps({"until_ns": CUT_NS}))
    if by != "the one who made the experiment":
        append(folder / "launcher.jsonl", kind="experiment", begin_ns=CUT_NS if by != "both" else CUT_NS + 10**9)

    timeline = SOURCE.read(folder, PLAIN)

    ends = [frame[column].max() for frame in timeline.tables.values() for column in ("end_ns", "time_ns") if column in frame.columns]
    assert 0 < max(end for end in ends if end is not None) <= CUT_NS
    assert 50 < timeline.table("updates").height < 150
    assert (timeline.run.ended_ns, timeline.run.exit_code) == (CUT_NS, None)


def test_of_several_plans_the_first_is_where_the_training_was_no_more_itself(folder):
    for later_ns in (0, 10**8, 10**9):
        append(folder / "launcher.jsonl", kind="experiment", begin_ns=CUT_NS + later_ns)

    assert SOURCE.read(folder, PLAIN).run.experiment_ns == CUT_NS


@pytest.mark.parametrize("by", ["bench", "prove", "nobody"])
def test_that_only_the_steps_before_a_bench_are_looked_at_is_said(folder, by):
    if by != "nobody":
        append(folder / "launcher.jsonl", kind="experiment", begin_ns=CUT_NS)
    if by == "prove":
        place = SandboxPlace(kind="overlay", claims="no file changed")
        save(Experiment(choices=(), untried=(), precision=0.05, budget_s=60.0, place=place, until_ns=CUT_NS), folder)

    notes = diagnose_recording(folder)["run"].get("notes", [])
    assert any("slowstep bench stopped this training" in note for note in notes) == (by == "bench")


def test_processes_that_began_in_the_experiment_are_left_out(folder):
    (folder / EXPERIMENT_FILE).write_text(json.dumps({"until_ns": CUT_NS}))
    append(folder / "300-1.jsonl", kind="process", role="worker", pid=300, started_ns=CUT_NS + 1)

    assert 300 not in SOURCE.read(folder, PLAIN).table("processes")["pid"].to_list()


def test_notes_that_follow_the_levers_first_word_are_about_the_experiment(folder):
    (folder / EXPERIMENT_FILE).write_text(json.dumps({"until_ns": CUT_NS}))
    before = SOURCE.read(folder, PLAIN)
    trainer = folder / "100-1.jsonl"
    append(trainer, kind="lever", arm=0, name="as-is", state="ready")
    append(trainer, kind="iterator", id=77, num_workers=4)
    append(trainer, kind="health", name="unsettled-block", severity="notice", count=2, remedy="it did not settle")
    with trainer.open("a") as file:
        file.write('{"kind": "torn by the ki')

    after = SOURCE.read(folder, PLAIN)

    assert after.table("iterators").equals(before.table("iterators"))
    assert {row.name for row in after.health} - {row.name for row in before.health} == {"unsettled-block"}


def test_a_file_that_is_no_experiments_cuts_nothing(folder):
    (folder / EXPERIMENT_FILE).write_text('{"until_ns": "soon"}')

    assert SOURCE.read(folder, PLAIN).table("updates").height == 200
