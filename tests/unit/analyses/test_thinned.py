"""Recordings that grew so big that the recorder only counted in some stretches."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_recordings import TRAINER_THREAD, Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE
from slowstep.workflow.diagnose_recordings import diagnose_recording

STEPS = 400
TRAINING = Training(steps=STEPS, workers=1, getitem_ms=40, epoch_steps=100)


def thin(file: Path, kind: int, first: int, last: int) -> None:
    """Leave out what is between the ends of two records of a kind, as the recorder does: only the number is kept."""
    records = [record for record in fmt.RECORD.iter_unpack(file.read_bytes()) if record[-1]]
    ends = [record[1] for record in records if record[-1] == kind]
    low, high = ends[first] + 1, ends[last] + 1
    kept = [record for record in records if not low <= record[0] < high]
    kept.append((low, high, last - first, -1, 0, TRAINER_THREAD, 0, 0, fmt.TOTALS))
    file.write_bytes(b"".join(fmt.RECORD.pack(*record) for record in sorted(kept)))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return make_recording(tmp_path / "whole", TRAINING)


@pytest.fixture
def thinned(tmp_path: Path) -> Path:
    folder = make_recording(tmp_path / "thinned", TRAINING)
    thin(folder / "100-1.rec", fmt.UPDATE, 120, 330)
    return folder


def measured(folder: Path) -> Measurements:
    return measure_recording(SOURCE.read(folder))


def test_the_ledger_of_what_is_left_is_that_of_the_whole(whole, thinned):
    before, after = diagnose_recording(whole), diagnose_recording(thinned)

    for row, same in zip(before["ledger"], after["ledger"], strict=True):
        assert same["share"] == pytest.approx(row["share"], abs=0.01)
    assert after["throughput"]["steps_per_s"] == pytest.approx(before["throughput"]["steps_per_s"], rel=0.02)
    assert after["throughput"]["samples_per_s"] == pytest.approx(before["throughput"]["samples_per_s"], rel=0.02)
    assert after["verdict"]["rule"] == before["verdict"]["rule"] == "too-few-workers"
    assert after["findings"][0]["gain"]["predicted"] == pytest.approx(before["findings"][0]["gain"]["predicted"], rel=0.02)


def test_steps_that_were_only_counted_are_said_and_belong_to_the_recording(whole, thinned):
    before, after = diagnose_recording(whole), diagnose_recording(thinned)

    assert after["run"]["recorded_steps"] == before["run"]["recorded_steps"] == STEPS
    assert 150 < after["run"]["steps"] < STEPS - 210
    assert {row["name"]: row["count"] for row in after["health"] if row["name"] == "thinned"} == {"thinned": 210}


def test_figures_per_step_have_a_row_for_each_step_that_is_left(thinned):
    m = measured(thinned)

    assert (
        m.steps.count
        == len(m.steps.samples)
        == len(m.steps.eventful)
        == m.ledger.ns.shape[1]
        == len(m.machine.delay_ns)
        == len(m.input.filling_ns)
    )
    assert m.steps.stretches == m.steps.count + 1
    assert m.ledger.ns.sum() == pytest.approx(m.steps.length_ns, rel=1e-12)
    assert max(m.step_ns) < 20 * min(m.step_ns)


def test_what_a_worker_only_counted_takes_no_step_from_the_training(whole):
    before = measured(whole)

    thin(whole / "200-1.rec", fmt.FETCH, 120, 330)

    after = measured(whole)
    assert after.steps.count == before.steps.count
    assert after.input.demand.wall_ns == pytest.approx(before.input.demand.wall_ns, rel=0.02)
