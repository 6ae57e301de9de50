"""Counters of a framework become records of windows, and calls that make several updates say so."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recorded import make_folder, processes
from slowstep.record.framework import NO_FRAMEWORK
from slowstep.record.recorder import Recorder, now
from slowstep.record.steps.counted import CountedInput
from slowstep.record.steps.updates import Updates
from slowstep.record.writing.format import FETCH, UPDATE, WAIT
from slowstep.sources._recording.notes import read_notes
from slowstep.sources._recording.process import process_tables
from slowstep.sources._recording.records import read_records


class Trainer:
    """What trains without an optimizer."""


def read(recorder: Recorder) -> dict[str, pl.DataFrame]:
    """The tables of what it has written."""
    (path,) = Path(recorder.folder).glob("*.rec")
    return process_tables(0, read_notes(path.with_suffix(".jsonl")), read_records(path).records)


@pytest.mark.parametrize("num_workers", [3, None], ids=["three make them", "it is not known who makes them"])
def test_each_reading_of_the_counters_is_what_came_since_the_last(tmp_path: Path, num_workers: int | None) -> None:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    counted = CountedInput(recorder, dataset="Pictures", num_workers=num_workers)

    counted.read(2, 20, 200)
    counted.read(5, 50, 600)
    recorder.stop("exit")

    (process,) = processes(recorder.folder)
    records = process.of("AGGREGATE")
    assert [(r.extra, r.a, r.b) for r in records] == [(WAIT, 2, 20), (UPDATE, 2, 200), (WAIT, 3, 30), (UPDATE, 3, 400)]
    assert records[0].t1 == records[2].t0
    assert read(recorder)["iterators"].select("dataset", "num_workers", "iterator").rows() == [("Pictures", num_workers, records[0].c)]


def test_samples_are_told_of_the_batches_that_came_with_them(tmp_path: Path) -> None:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    counted = CountedInput(recorder, dataset="Pictures")

    counted.read(2, 20, 200, 64)
    counted.read(5, 50, 600, 150)
    counted.read(6, 60, 700)
    recorder.stop("exit")

    found = read(recorder)["aggregates"]
    assert found.filter(kind="wait").select("count", "total_ns", "samples").rows() == [(2, 20, 64), (3, 30, 86), (1, 10, None)]
    assert found.filter(kind="update")["samples"].to_list() == [None] * 3
    assert set(found["kind"]) == {"wait", "update"}


def test_of_a_first_reading_without_batches_it_is_known_that_no_samples_came(tmp_path: Path) -> None:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    counted = CountedInput(recorder, dataset="Pictures")

    counted.read(0, 20, None, 0)
    counted.read(2, 30, None, 64)
    recorder.stop("exit")

    (process,) = processes(recorder.folder)
    assert [(r.extra, r.a, r.b) for r in process.of("AGGREGATE")] == [(WAIT, 0, 20), (FETCH, 0, 0), (WAIT, 2, 10), (FETCH, 2, 64)]
    assert read(recorder)["aggregates"].select("count", "samples").rows() == [(0, 0), (2, 64)]


def test_a_call_that_makes_several_updates_is_one_step_with_so_many(tmp_path: Path) -> None:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    updates, trainer = Updates(recorder, NO_FRAMEWORK), Trainer()
    counted = CountedInput(recorder, dataset="Pictures")

    for _ in range(3):
        began_ns = now()
        updates.called(trainer, began_ns, now(), 4)
    counted.read(12, 20, 200)
    recorder.stop("exit")

    tables = read(recorder)
    assert tables["updates"]["updates"].to_list() == [4, 4, 4]
    assert tables["aggregates"].select("kind", "count", "total_ns").rows() == [("wait", 12, 20), ("update", 12, 200)]
    assert recorder.page._words[1] == 3
