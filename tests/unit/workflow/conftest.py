"""What is measured follows from what was read alone: of equal recordings, and of equal traces, it is measured once for all tests."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from made_topics import with_topics
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measure_trace import ChosenStep, measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.timeline.timeline import Timeline
from slowstep.workflow import diagnose_recordings
from slowstep.workflow.traces import traces

_MEASURED: dict[Any, Measurements] = {}
_MEASURED_TRACES: dict[Any, Measurements] = {}


def _content(timeline: Timeline, without: Mapping[str, None]) -> tuple[bytes, ...]:
    """All that was read, but for some notes of processes."""
    processes = [replace(each, notes={**each.notes, **without}) for each in timeline.processes]
    return tuple(map(pickle.dumps, (timeline.source, dict(timeline.tables), processes, timeline.run, timeline.health, timeline.trace)))


@pytest.fixture
def measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of recordings that are equal up to their experiments."""

    def known(timeline: Timeline, warmup: int | None = None, *, process: int | None = None, **_: Any) -> Measurements:
        # What levers said is the experiment's.
        key = (_content(timeline, {"levers": None}), warmup, process)
        if key not in _MEASURED:
            _MEASURED[key] = measure_recording(timeline, warmup, process=process)
        m = _MEASURED[key]
        return with_topics(m, trainer=replace(m.trainer, facts=timeline.processes[m.trainer.process]))

    monkeypatch.setattr(diagnose_recordings, "measure_recording", known)


@pytest.fixture
def traces_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of traces that are equal."""

    def known(timeline: Timeline, *, batch_size: int | None = None, step: ChosenStep = None) -> Measurements:
        key = (_content(timeline, {}), batch_size, step)
        if key not in _MEASURED_TRACES:
            _MEASURED_TRACES[key] = measure_trace(timeline, batch_size=batch_size, step=step)
        return _MEASURED_TRACES[key]

    monkeypatch.setattr(traces, "measure_trace", known)
