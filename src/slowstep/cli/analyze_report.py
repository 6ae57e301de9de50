"""What `slowstep analyze` does with what it was given: reads it, shows the report, and writes it for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slowstep.cli.border import say
from slowstep.cli.progress import progress_on
from slowstep.errors import BadUsage, UnreadableInput
from slowstep.record.launching.folder import analyze_words
from slowstep.report.drawn_parts import raising
from slowstep.report.json import dumps, show_and_write
from slowstep.report.streams import print_line
from slowstep.report.terminal import show
from slowstep.sources._source import HowRead
from slowstep.workflow.analyze import examine
from slowstep.workflow.export import export as export_by
from slowstep.workflow.export import export_document, exporters
from slowstep.workflow.given import Given
from slowstep.workflow.traces.trace_memory import events_within
from slowstep.workflow.traces.trace_request import TraceRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportRequest:
    """What was asked for besides what is read, as the options of `slowstep analyze` say it; `export` is the name of an exporter that is."""

    asked: TraceRequest
    warmup: int | None
    rank: int | None
    memory_bytes: int | None
    export: str | None
    export_to: Path | None
    json: str | None
    verbose: bool

    @property
    def needs_more(self) -> bool:
        """Whether a report that is made already is not enough."""
        changed = self.warmup is not None or self.rank is not None or self.asked != TraceRequest()
        return changed or (self.export is not None and exporters()[self.export].write_document is None)


def report_on(given: Given, wanted: ReportRequest) -> None:
    """Show, and write where asked for, the report of what was given. Raises SlowstepError for what cannot be read, written or meant."""
    if given.document is None or (given.is_benched and wanted.needs_more):
        _report_anew(given, wanted)
    elif wanted.needs_more:
        raise BadUsage(f"{given.paths[0]} is a report, made already. Give the recording or the trace that it is of, with the same options.")
    else:
        _show_document(given, given.document, wanted)
        if wanted.export is not None:
            _say_written(export_document(exporters()[wanted.export], given.paths[0], given.document, wanted.export_to), wanted.json)


def _report_anew(given: Given, wanted: ReportRequest) -> None:
    """Read what was given, and report on it."""
    paths, rank = list(given.paths), given.rank if wanted.rank is None else wanted.rank
    how = HowRead(memory_bytes=wanted.memory_bytes, most_events=events_within(wanted.memory_bytes))
    with progress_on(sys.stderr) as progress:
        examined = examine(paths, warmup=wanted.warmup, rank=rank, asked=wanted.asked, how=replace(how, progress=progress))
    report = examined.report
    _say_which(report, () if given.chosen else given.paths)
    if given.is_benched:
        benched = analyze_words(str(given.paths[0]))
        say(f"slowstep: these are the steps before slowstep bench stopped the training; what it measured: {benched}")
    _show(report, wanted)
    if wanted.export is not None:
        # Last: what cannot be written costs nobody the report.
        exporter = exporters()[wanted.export]
        with progress_on(sys.stderr) as progress:
            place = export_by(exporter, paths, examined, wanted.export_to, asked=wanted.asked, how=replace(how, progress=progress))
        _say_written(place, wanted.json)


def _show_document(given: Given, document: dict[str, Any], wanted: ReportRequest) -> None:
    """Show a report as it was written."""
    path = given.paths[0]
    if given.chosen:
        _say_which(document, ())
    try:
        # What somebody has changed is no fault of ours.
        with raising():
            _show(document, wanted)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UnreadableInput(f"{path} is a report that lacks something, or was changed ({type(error).__name__}: {error}).") from error


def _show(report: dict[str, Any], wanted: ReportRequest) -> None:
    if wanted.json == "-":
        sys.stdout.write(dumps(report))
    else:
        show_and_write(lambda: show(report, sys.stdout, verbose=wanted.verbose), report, wanted.json)


def _say_written(place: Path, json: str | None) -> None:
    if json != "-":
        print_line(f"Written     {place}", sys.stdout)


def _say_which(report: dict[str, Any], asked: Sequence[Path]) -> None:
    """Which recording the report is of, where it was chosen here."""
    # Of traces, the last line of the report says which one was read.
    recording = None if "trace" in report["run"] else report["run"].get("recording")
    if recording is not None and Path(recording).resolve() not in {path.resolve() for path in asked}:
        shown = os.path.relpath(recording)
        say(f"slowstep: the last run here is {recording if shown.startswith('.') else shown}")
