"""What an exporter is: it writes a report, a trace or a recording for other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowstep.analyses.measurements import Measurements
    from slowstep.findings import Finding
    from slowstep.timeline.timeline import Timeline

ReportMapping = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exporter:
    """One form, for `slowstep analyze --export NAME`.

    It takes the report's document alone (`write_document`), or also what the report is of (`write`): the timeline that was read, what was
    measured of it, and the findings in the order of the report, as far as these are kept as they were diagnosed. Both write to the path
    that they are given, write nothing over, and raise UnwritableOutput.
    """

    name: str
    suffix: str  # what is added to the name of a trace or recording, where the user names no place
    writes: str  # what it writes, for the help text
    write_document: Callable[[Path, ReportMapping], None] | None = None
    write: Callable[[Path, Timeline, Measurements, ReportMapping, Sequence[Finding]], None] | None = None
