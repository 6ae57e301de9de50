"""Faults of slowstep's own in a report: counted as health, and no training is called healthy because of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from slowstep.document.finding_rows import HealthRow
from slowstep.document.rows import health_row
from slowstep.faults import Fault
from slowstep.health import HealthKind
from slowstep.report.fault_log import report_it, shown

INTERNAL_ERROR: Final = HealthKind("internal-error", "error", "slowstep itself failed in {told}, and what needs it is left out. {advice}")
# More names would push everything else off the screen; all of them are in the log.
_TOLD: Final = 3


def fault_rows(faults: Mapping[int, Sequence[Fault]], folder: Path | None) -> dict[int, list[HealthRow]]:
    """The faults of each report as rows of its health; their log is kept: in `folder`, or in the user's cache where there is none."""
    met = list({id(fault): fault for each in faults.values() for fault in each}.values())
    advice = report_it(met, folder) if met else ""
    return {number: [_row(own, advice)] if own else [] for number, own in faults.items()}


def _row(faults: Sequence[Fault], advice: str) -> HealthRow:
    told = ", ".join(f"{fault.task} ({shown(fault.error)})" for fault in faults[:_TOLD])
    more = f" and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
    return health_row(INTERNAL_ERROR(len(faults), told=f"{told}{more}", advice=advice))
