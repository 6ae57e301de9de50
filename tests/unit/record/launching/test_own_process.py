"""A recording of this very process, where no training runs."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from slowstep.errors import UnwritableOutput
from slowstep.record.active import active
from slowstep.record.launching.own_process import OwnOptions, OwnRecording
from slowstep.record.writing import format as contract


def begin(place: Path, **options: Any) -> OwnRecording:
    return OwnRecording(OwnOptions(name="here", started_in="a test", parent=str(place), **options), cells=lambda: {"<a>": 3})


def notes(recording: OwnRecording) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (Path(recording.folder) / "launcher.jsonl").read_text().splitlines():
        found.setdefault(json.loads(line)["kind"], []).append(json.loads(line))
    return found


def test_it_is_on_until_it_ends_and_ends_once(tmp_path: Path) -> None:
    before = dict(os.environ), threading.active_count()

    recording = begin(tmp_path)
    assert recording.is_on
    assert active() is not None
    recording.note_prompt()
    recording.end()
    recording.end()
    recording.note_prompt()

    assert not recording.is_on
    assert active() is None
    assert (dict(os.environ), threading.active_count()) == before
    found = notes(recording)
    assert [len(found[kind]) for kind in ("process", "run", "prompt", "exit")] == [1, 1, 1, 1]
    assert found["cells"][-1]["cells"] == {"<a>": 3}
    assert found["run"][0]["started_in"] == "a test"
    assert "started_ns" not in found["run"][0]


def test_children_are_told_of_it(tmp_path: Path) -> None:
    recording = begin(tmp_path, level=2, steps=7)
    try:
        assert os.environ[contract.ENV_RECORDING] == recording.folder
        assert (os.environ[contract.ENV_LEVEL], os.environ[contract.ENV_STEPS]) == ("2", "7")
        assert os.environ["PYTHONPATH"].startswith(recording.folder)
    finally:
        recording.end()


def test_its_own_cost_is_that_of_its_thread_and_not_of_the_training(tmp_path: Path) -> None:
    recording = begin(tmp_path)
    sum(range(3_000_000))
    recording.end()

    records = contract.RECORD.iter_unpack((Path(recording.folder) / "launcher.rec").read_bytes())
    costs = [record[2] for record in records if record[-1] == contract.READING_COST]
    assert costs == sorted(costs)
    # Of a process that has imported pytest and much else.
    assert max(costs) < 100_000_000


def test_a_thread_that_cannot_read_the_cells_does_not_end_the_recording(tmp_path: Path) -> None:
    def broken() -> dict[str, int]:
        raise RuntimeError("changed size during iteration")

    recording = OwnRecording(OwnOptions(name="here", started_in="a test", parent=str(tmp_path)), cells=broken)
    recording.end()

    assert notes(recording)["exit"]


def test_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = dict(os.environ), threading.active_count()

    with pytest.raises(UnwritableOutput, match="out="):
        begin(tmp_path / "file")

    assert (dict(os.environ), threading.active_count(), active()) == (*before, None)
