"""A job is measured one rank at a time: when the next rank is read, the measurements of the one before are gone, also where it failed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kineto_files import event, kernel, launch, written
from made_ranks import make_job
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.trainer import other_training_processes
from slowstep.diagnosis import law
from slowstep.sources.recording import OpenRecording
from slowstep.timeline.timeline import Timeline
from slowstep.workflow import diagnose_recordings
from slowstep.workflow.analyze import analyze
from slowstep.workflow.diagnose_recordings import diagnose_all
from slowstep.workflow.traces import traces

RANKS = 4


def alive(kind: type) -> int:
    """How many objects of a kind somebody holds."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def counting(seen: list[int], kind: type, do: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which counts before each call how many objects of a kind there are."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(alive(kind))
        return do(*args, **kwargs)

    return counted


def failing(*_: Any) -> Any:
    raise ZeroDivisionError("made to fail")


@pytest.fixture(params=["rules that judge", pytest.param("a rule that fails", marks=pytest.mark.nightly)])
def rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error keeps the frames in which it was raised, and what they hold."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "a rule that fails":
        known = law.rules()
        failed = {name: replace(rule, judge=failing) for name, rule in known.items()}
        monkeypatch.setattr("slowstep.diagnosis.engine.rules", lambda: failed)


@pytest.mark.slow
@pytest.mark.usefixtures("rules")
def test_of_a_recording_the_measurements_of_one_rank_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    read: list[int] = []
    monkeypatch.setattr(diagnose_recordings, "measure_recording", counting(measured, Measurements, diagnose_recordings.measure_recording))
    monkeypatch.setattr(OpenRecording, "timeline", counting(read, Timeline, OpenRecording.timeline))
    before = alive(Measurements), alive(Timeline)

    diagnosed = diagnose_all(make_job(tmp_path / "job", [4.0] * (RANKS - 1) + [12.0]))

    assert len(diagnosed.reports) == RANKS
    assert measured == [before[0]] * RANKS
    # First it is asked who is there, which stays.
    assert read == [before[1]] + [before[1] + 1] * RANKS
    assert (alive(Measurements), alive(Timeline)) == before


def test_the_timeline_of_one_recorded_rank_has_the_updates_of_the_others_alone(tmp_path: Path) -> None:
    recording = OpenRecording(make_job(tmp_path / "job", [4.0] * RANKS))
    outline = recording.outline()

    timeline = recording.timeline(without=other_training_processes(outline, 1))

    assert outline.table("waits").is_empty()
    assert set(timeline.table("waits")["process"]) == {1}
    assert set(timeline.table("updates")["process"]) == set(range(RANKS))
    assert timeline.processes == outline.processes
    whole = recording.timeline()
    assert timeline.table("waits").equals(whole.table("waits").filter(pl.col("process") == 1))


@pytest.mark.slow
@pytest.mark.usefixtures("rules")
def test_of_traces_the_measurements_and_the_timeline_of_one_rank_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    read: list[int] = []
    monkeypatch.setattr(traces, "measure_trace", counting(measured, Measurements, traces.measure_trace))
    monkeypatch.setattr(traces, "read_cached", counting(read, Timeline, traces.read_cached))
    before = alive(Measurements), alive(Timeline)
    (tmp_path / "job").mkdir()
    for rank in range(RANKS):
        events = []
        for number in range(3):
            at = 1000 * number
            events += [
                event(f"ProfilerStep#{number}", at, 1000, cat="user_annotation"),
                event("autograd::engine::evaluate_function: MmBackward0", at + 300, 100, tid=101),
                launch(at + 20, number + 1),
                kernel(at + 40, 460, number + 1, name="gemm"),
            ]
        written(tmp_path / "job", events, f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": RANKS})

    report = analyze([tmp_path / "job"])

    assert len(report["run"]["rank_rows"]) == RANKS
    assert measured == [before[0]] * RANKS
    assert read == [before[1]] * RANKS
