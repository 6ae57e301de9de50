"""Two recordings, traces or reports become a comparison of their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.errors import BadUsage
from slowstep.report.comparison import Comparison, compare_reports
from slowstep.sources._source import PLAIN, HowRead
from slowstep.workflow.analyze import analyze
from slowstep.workflow.given import what_is_given


def compare_runs(before: Path, after: Path, *, how: HowRead = PLAIN) -> Comparison:
    """Compare what lies at two paths. Raises what `analyze` does, and BadUsage for what `bench` measured."""
    return compare_reports(_report(before, how), _report(after, how))


def _report(path: Path, how: HowRead) -> dict[str, Any]:
    given = what_is_given([path])
    if given.document is None:
        return analyze(list(given.paths), rank=given.rank, how=how)
    if "bench" in given.document:
        raise BadUsage(f"{path} is of slowstep bench, which stops the training. Give what run or prove recorded, traces, or their reports.")

    return given.document
