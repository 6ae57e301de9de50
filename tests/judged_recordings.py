"""Judges a made recording by all rules, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_recordings import Training, make_recording
from slowstep.document.report import Report
from slowstep.document.validity import validate
from slowstep.workflow.diagnose_recordings import diagnose_recording


def report_of(folder: Path, changes: dict[str, Any]) -> Report:
    """The report of a training of 300 steps with these changes, held against the schema."""
    report = diagnose_recording(make_recording(folder / "recording", Training(**{"steps": 300, **changes})))
    validate(report)
    return report
