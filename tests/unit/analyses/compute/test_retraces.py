"""For what functions were traced again in the window that is looked at."""

from __future__ import annotations

from pathlib import Path

from made_events import Events, at
from slowstep.analyses.compute.retraces import ChangeKind, Retrace
from slowstep.analyses.measure_recording import measure_recording


def retraces(folder: Path, **changed_at_ms: float) -> tuple[Retrace, ...]:
    """A training of 100 steps that traced these functions again at those times."""
    events, end = Events(folder), 0.0
    events.loader()
    for number in range(100):
        end = events.step(end, batch=number)
    for function, ms in changed_at_ms.items():
        changes = [["x", "shape", "(3,)", "(4,)"], ["y", "yet unknown", "", ""]]
        events.trainer.lines.append({"kind": "retrace", "function": function, "at_ns": at(ms), "number": 1, "changes": changes})
    return measure_recording(events.timeline()).compute.retraces


def test_those_of_the_window_are_told_and_changes_of_a_newer_kind_passed_over(tmp_path):
    found = retraces(tmp_path / "1", before=5.0, inside=600.0)

    assert found == (Retrace(function="inside", argument="x", change=ChangeKind.SHAPE, before="(3,)", after="(4,)"),)


def test_where_none_was_noted_in_the_window_earlier_ones_are(tmp_path):
    assert [each.function for each in retraces(tmp_path / "1", before=5.0)] == ["before"]
    assert retraces(tmp_path / "2") == ()
