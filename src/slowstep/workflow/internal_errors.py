"""Faults of slowstep's own in a report: counted as health, and no training is called healthy because of one."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

from slowstep.diagnosis.law import open_by_fault
from slowstep.faults import Attempts, Fault
from slowstep.report.fault_log import DEBUG, report_it, shown
from slowstep.report.words import verdict_row

P = ParamSpec("P")
INTERNAL_ERROR: Final = "internal-error"
# More names would push everything else off the screen; all of them are in the log.
_TOLD: Final = 3
Reports = dict[int, dict[str, Any]]


def add_faults(reports: Mapping[int, dict[str, Any]], faults: Mapping[int, Sequence[Fault]], folder: Path | None) -> None:
    """Count the faults of each report among its health, and keep their log: in `folder`, or in the user's cache where there is none."""
    met = list({id(fault): fault for each in faults.values() for fault in each}.values())
    if not met:
        return
    advice = report_it(met, folder)
    for number, report in reports.items():
        if own := faults[number]:
            told = ", ".join(f"{fault.task} ({shown(fault.error)})" for fault in own[:_TOLD])
            more = f" and {len(own) - _TOLD} more" if len(own) > _TOLD else ""
            remedy = f"slowstep itself failed in {told}{more}, and what needs it is left out. {advice}"
            report["health"].append({"name": INTERNAL_ERROR, "severity": "error", "count": len(own), "remedy": remedy})


def see_fault(recording: Path) -> str:
    """The command that shows all that is known of the faults in a report."""
    return f"{DEBUG}=1 slowstep analyze {shlex.quote(str(recording))}"


def completed(
    attempt: Attempts, report: dict[str, Any], add: Callable[Concatenate[dict[str, Any], P], object], *args: P.args, **kwargs: P.kwargs
) -> dict[str, Any]:
    """A report with what `add` puts into it; as it was where that fails, but for a verdict that it might have changed."""
    return all_completed(attempt, {0: report}, lambda reports: add(reports[0], *args, **kwargs), add.__name__)[0]


def all_completed(attempt: Attempts, reports: Reports, add: Callable[[Reports], object], task: str) -> Reports:
    """The same of all reports of a job, into which `task` puts what is known of all of them."""
    more = copy.deepcopy(reports)
    fault = attempt.outcome(task, add, more)
    if not isinstance(fault, Fault):
        return more
    for report in reports.values():
        if report["verdict"]["state"] == "healthy":
            report["verdict"] = verdict_row(open_by_fault(report["verdict"]["stage"], fault), ())
    return reports
