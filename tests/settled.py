"""Reports of real trainings, on machines that others use too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launching import Workplace
from slowstep.document.report import validate

ATTEMPTS = 3


def settled_report(work: Workplace, script: str | Path, *flags: str) -> dict[str, Any]:
    """The report of a run; where it says that the machine was busy or that it cannot tell, what it advises is done: it is repeated."""
    for _ in range(ATTEMPTS):
        report = report_of(work, script, *flags)
        busy = any("busy" in note for note in report["run"].get("notes", ()))
        if not busy and report["verdict"]["state"] != "undetermined":
            return report
    if busy:
        pytest.skip(f"others used this machine in {ATTEMPTS} runs: {report['run']['notes'][0]}")
    return report


def report_of(work: Workplace, script: str | Path, *flags: str) -> dict[str, Any]:
    """The report of one run."""
    target = work.runs.parent / "report.json"
    ended = work.run(str(script), *flags, options=("--json", str(target)))
    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads(target.read_text())
    validate(report)
    return report
