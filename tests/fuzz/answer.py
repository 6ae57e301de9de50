"""What is wrong with what slowstep makes of an input: everything that `slowstep analyze` does, in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.cells import cell_len

from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.document.validity import faults
from slowstep.errors import SlowstepError
from slowstep.report.json import dumps
from slowstep.report.terminal import render
from slowstep.sources._source import PLAIN, HowRead
from slowstep.sources.recording import OpenRecording
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.analyze import examine
from slowstep.workflow.export import export, exporters
from slowstep.workflow.traces.find import FoundTrace
from slowstep.workflow.traces.parsed_traces import read_cached
from slowstep.workflow.traces.trace_request import TraceRequest

WIDTH = 80
# Labels of lines that hold what is to be copied.
COPIED = ("Next ", "More ", "Again ", "Saved ", "Report of ")


class Refused(Exception):
    """It is said in a sentence that, and why, there is no report."""


def faults_of_answer(path: Path, folder: Path) -> list[str]:
    """What is wrong with the report of an input, and with what is exported of it into `folder`.

    Raises Refused for a refusal, which is an answer too. Whatever else is raised is a fault of slowstep's.
    """
    with measured_once():
        try:
            examined = examine([path])
        except SlowstepError as error:
            if str(error).strip():
                raise Refused(str(error)) from None
            return [f"a {type(error).__name__} that says nothing"]
        report = examined.report
        if "trace" in report["run"]:
            for exporter in exporters().values():
                export(exporter, [path], examined, folder / f"exported{exporter.suffix}", asked=TraceRequest(), how=PLAIN)
    found = faults(report)
    # An exception in a rule or an analysis costs that rule only, so that the report stands; here it must not be hidden.
    found += [f"{row['rule']} is not judged: {row['reason']}" for row in report["not_judged"] if "internal error" in row["reason"]]
    found += [f"health: {row['name']}: {row['remedy']}" for row in report["health"] if "internal" in row["name"]]
    json.loads(dumps(report))
    lines = render(report, width=WIDTH, color=False).splitlines()
    # Commands and paths are never broken: they are there to be copied.
    too_wide = [line for line in lines if cell_len(line) > WIDTH and not line.startswith(COPIED)]
    found += [f"a line of the terminal is wider than {WIDTH}: {line!r}" for line in too_wide]
    return found


class Unsound(Exception):
    """A table is not as it is declared: analyses rely on that, and are not to check it again."""


def _sound(timeline: Timeline) -> Timeline:
    for name in (table for table in TABLE if table in timeline.tables):
        read, declared = timeline.table(name), TABLE[name]
        if dict(read.schema) != declared.schema:
            raise Unsound(f"{name} has the columns {read.schema}")
        for column in declared.columns:
            if not column.nullable and read[column.name].null_count():
                raise Unsound(f"{name}.{column.name} is unknown in a row")
        if {"start_ns", "end_ns"} <= read.schema.keys() and (read["end_ns"] < read["start_ns"]).any():
            raise Unsound(f"{name} has a row that ends before it starts")
    return timeline


@contextmanager
def measured_once() -> Iterator[None]:
    """Read and measure each trace once, for its report and for all that is exported: by themselves these do so again, which takes long."""
    read: dict[tuple[Path, int | None], Timeline] = {}
    measured: dict[int, Measurements] = {}

    def read_one(found: FoundTrace, how: HowRead) -> Timeline:
        if (found.path, found.pid) not in read:
            read[found.path, found.pid] = _sound(read_cached(found, how))
        return read[found.path, found.pid]

    def measure_one(timeline: Timeline, **asked: Any) -> Measurements:
        if id(timeline) not in measured:
            measured[id(timeline)] = measure_trace(timeline, **asked)
        return measured[id(timeline)]

    tables_of = OpenRecording.timeline

    def read_recording(recording: OpenRecording, **of: Any) -> Timeline:
        return _sound(tables_of(recording, **of))

    with ExitStack() as stack:
        stack.enter_context(patch.object(OpenRecording, "timeline", read_recording))
        for module in ("slowstep.workflow.traces.traces", "slowstep.workflow.export"):
            stack.enter_context(patch(f"{module}.read_cached", read_one))
            stack.enter_context(patch(f"{module}.measure_trace", measure_one))
        yield
