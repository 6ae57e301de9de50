"""Two recordings, traces or reports become a comparison of their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.errors import BadUsage
from slowstep.report.comparison import Comparison, compare_reports
from slowstep.report.document import SCHEMA
from slowstep.sources._source import PLAIN, Reading
from slowstep.workflow.analyze import analyze
from slowstep.workflow.given import what_is_given


def compare(before: Path, after: Path, *, how: Reading = PLAIN) -> Comparison:
    """Compare what lies at two paths. Raises UnreadableInput or NothingRecorded as `analyze` does, and BadUsage for reports of `bench`."""
    return compare_reports(_report(before, how), _report(after, how))


def _report(path: Path, how: Reading) -> dict[str, Any]:
    given = what_is_given([path])
    if given.document is None:
        return analyze(list(given.paths), rank=given.rank, how=how)
    if given.document["schema"] != SCHEMA:
        raise BadUsage(f"{path} is a report of slowstep bench. Give recordings, traces, or reports of run, analyze or prove.")
    return given.document
