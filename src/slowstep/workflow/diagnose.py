"""From a recording to the report: load, measure, judge, and fill the document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.analyses.measurements import measure
from slowstep.diagnosis.engine import diagnose
from slowstep.workflow.document import fill
from slowstep.workflow.load import load


def diagnose_recording(folder: Path, *, warmup: int | None = None) -> dict[str, Any]:
    """The report of a recording, as the dict of report.json. Raises UnreadableInput, or NothingRecorded where nothing trained."""
    timeline = load(folder)
    measurements = measure(timeline, timeline.run.warmup if warmup is None else warmup)
    return dict(fill(folder, timeline, measurements, diagnose(measurements)))
