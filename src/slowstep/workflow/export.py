"""A report, or what it is of (a trace or a recording), written for other programs by an exporter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.errors import BadUsage
from slowstep.exporters._exporter import Exporter
from slowstep.registry import discover
from slowstep.sources._source import HowRead
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.judge_job import Examined
from slowstep.workflow.traces.find import FoundTrace, each_process, find
from slowstep.workflow.traces.parsed_traces import read_cached
from slowstep.workflow.traces.trace_request import TraceRequest

# Endings that the name of what is exported does not keep, in this order.
_PACKED: Final = (".gz", ".json")


def exporters() -> dict[str, Exporter]:
    """All exporters, by name."""
    return discover("slowstep.exporters", "EXPORTER", Exporter)


def export(
    exporter: Exporter, paths: Sequence[Path], examined: Examined, target: Path | None, *, asked: TraceRequest, how: HowRead
) -> Path:
    """Write the report, or the trace or recording that it is of, found at the paths; returns where. Raises UnwritableOutput."""
    report, run = examined.report, examined.report["run"]
    if exporter.write is None:
        return export_document(exporter, paths[0], report, target)
    found = next((each for each in each_process(find(paths)[0]) if _is_of(run, each)), None)
    if found is None:
        raise BadUsage(f"--export {exporter.name}: {run.get('recording')} is no longer there.")
    place = target or _place(exporter, found.path)
    timeline = read_cached(found, how)
    exporter.write(place, timeline, _measured(timeline, run, asked), report, examined.findings)
    return place


def export_document(exporter: Exporter, path: Path, report: dict[str, Any], target: Path | None) -> Path:
    """Write a report that was read from `path`; returns where. Raises BadUsage where the exporter needs what the report is of."""
    if exporter.write_document is None:
        raise BadUsage(f"--export {exporter.name}: {path} is a report. Give the recording or the trace that it is of.")
    place = target or _place(exporter, path)
    exporter.write_document(place, report)
    return place


def _place(exporter: Exporter, path: Path) -> Path:
    name = path.resolve().name
    for ending in _PACKED:
        name = name.removesuffix(ending)
    return Path(name + exporter.suffix)


def _is_of(run: dict[str, Any], found: FoundTrace) -> bool:
    return str(found.path) == run.get("recording") and found.pid in (None, run.get("pid"))


def _measured(timeline: Timeline, run: dict[str, Any], asked: TraceRequest) -> Measurements:
    """What the report is of, measured once more: what was measured for that is let go of before the next rank is read."""
    if timeline.trace is not None:
        return measure_trace(timeline, batch_size=asked.batch_size, step=asked.step)
    process = next((number for number, facts in enumerate(timeline.processes) if facts.pid == run.get("pid")), None)
    # Of the steps that the report is of.
    return measure_recording(timeline, run["warmup_steps"], process=process)
