"""What a report is of, a trace or a recording, written for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from slowstep.analyses.measurements import measure
from slowstep.analyses.trace.measure import measure_trace
from slowstep.diagnosis.trace_engine import diagnose_trace
from slowstep.errors import BadUsage
from slowstep.exporters.chrome import write_chrome
from slowstep.exporters.parquet import write_parquet
from slowstep.exporters.recording import write_recording_tables, write_recording_trace
from slowstep.sources._source import Reading
from slowstep.workflow.find import RECORDING, Found, each_process, find
from slowstep.workflow.trace_cache import read_cached
from slowstep.workflow.traces import Asked

Kind = Literal["chrome", "parquet"]
SUFFIX: dict[Kind, str] = {"chrome": ".slowstep.json.gz", "parquet": ".slowstep-tables"}


def export(kind: Kind, paths: Sequence[Path], report: dict[str, Any], target: Path | None, *, asked: Asked, how: Reading) -> Path:
    """Write the trace of the rank that the report is of, or the recording; returns where. Raises UnwritableOutput."""
    run = report["run"]
    found = next((each for each in each_process(find(paths)[0]) if _is_of(run, each)), None)
    if found is None:
        raise BadUsage(f"--export {kind}: {run.get('recording')} is no longer there.")
    place = target or Path(found.path.resolve().name.removesuffix(".gz").removesuffix(".json") + SUFFIX[kind])
    if found.source.name == RECORDING:
        _export_recording(kind, place, found, run, how)
    else:
        _export_trace(kind, place, found, report, asked, how)
    return place


def _is_of(run: dict[str, Any], found: Found) -> bool:
    return str(found.path) == run.get("recording") and found.pid in (None, run.get("pid"))


def _export_trace(kind: Kind, place: Path, found: Found, report: dict[str, Any], asked: Asked, how: Reading) -> None:
    timeline = read_cached(found, how)
    m = measure_trace(timeline, batch_size=asked.batch_size, step=asked.step)
    if kind == "chrome":
        # The report has them in words, and in its order.
        findings = {finding.rule: finding for finding in diagnose_trace(m).findings}
        shown = [findings[row["rule"]] for row in report["findings"] if row["rule"] in findings]
        write_chrome(place, timeline, m.tables, shown)
    else:
        write_parquet(place, timeline, m.tables)


def _export_recording(kind: Kind, place: Path, found: Found, run: dict[str, Any], how: Reading) -> None:
    timeline = found.source.read(found.path, how)
    process = next((number for number, facts in enumerate(timeline.processes) if facts.pid == run.get("pid")), None)
    m = measure(timeline, process=process)
    if kind == "chrome":
        write_recording_trace(place, timeline, m)
    else:
        write_recording_tables(place, timeline, m)
