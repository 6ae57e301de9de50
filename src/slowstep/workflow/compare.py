"""Two recordings, traces or reports become a comparison of their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.errors import BadUsage
from slowstep.report.comparison import Comparison, compare_reports
from slowstep.sources._source import PLAIN, HowRead
from slowstep.workflow.given import Given, what_is_given


def compare_runs(before: Path, after: Path, *, how: HowRead = PLAIN) -> Comparison:
    """Compare what lies at two paths. Raises what `analyze` does, and BadUsage for what `bench` measured."""
    # Both, before one of them is read.
    given = {path: what_is_given([path]) for path in (before, after)}
    for path, each in given.items():
        _refuse_bench(path, each)
    return compare_reports(_report(given[before], how), _report(given[after], how))


def _refuse_bench(path: Path, given: Given) -> None:
    if given.document is not None and "bench" in given.document:
        raise BadUsage(f"{path} is of slowstep bench, which stops the training. Give what run or prove recorded, traces, or their reports.")


def _report(given: Given, how: HowRead) -> dict[str, Any]:
    if given.document is None:
        # Imported here: what is not there is refused without what would read it.
        from slowstep.workflow.analyze import analyze

        return analyze(list(given.paths), rank=given.rank, how=how)
    return given.document
