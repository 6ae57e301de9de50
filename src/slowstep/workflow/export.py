"""The trace of the rank that a report is of, written for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from slowstep.analyses.trace.measure import measure_trace
from slowstep.errors import BadUsage
from slowstep.exporters.chrome import write_chrome
from slowstep.exporters.parquet import write_parquet
from slowstep.sources._source import Reading
from slowstep.workflow.find import each_process, find
from slowstep.workflow.trace_cache import read_cached
from slowstep.workflow.traces import Asked

Kind = Literal["chrome", "parquet"]
SUFFIX: dict[Kind, str] = {"chrome": ".slowstep.json.gz", "parquet": ".slowstep-tables"}


def export(kind: Kind, paths: Sequence[Path], report: dict[str, Any], target: Path | None, *, asked: Asked, how: Reading) -> Path:
    """Write the trace that the report is of; returns where. Raises BadUsage for a recording, UnwritableOutput."""
    run = report["run"]
    path = run.get("recording")
    found = next((each for each in each_process(find(paths)[0]) if str(each.path) == path and each.pid in (None, run.get("pid"))), None)
    if found is None or "trace" not in run:
        raise BadUsage(f"--export {kind} is for traces: a recording is in {path} already, and its report in report.json.")
    timeline = read_cached(found, how)
    tables = measure_trace(timeline, batch_size=asked.batch_size, step=asked.step).tables
    place = target or Path(found.path.name.removesuffix(".gz").removesuffix(".json") + SUFFIX[kind])
    if kind == "chrome":
        write_chrome(place, timeline, tables, report)
    else:
        write_parquet(place, timeline, tables)
    return place
