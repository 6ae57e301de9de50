"""Parsed traces are kept, so that the second look at a large one takes no time: in the user's cache folder, never beside the trace."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import polars as pl

import slowstep
from slowstep.health import Health, HealthKind
from slowstep.sources._last_steps import last_steps, left_out, of_tables
from slowstep.sources._source import HowRead
from slowstep.timeline.coverage import CoverageLevel, CoveredSteps, KindCoverage
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.stored import Stored
from slowstep.timeline.table import light
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace import TraceFacts
from slowstep.timeline.trace_tables import TRACE_TABLES
from slowstep.workflow.traces.find import FoundTrace

# Reading that is quicker than this is not worth a file.
WORTH_S = 1.0
# All kept traces together; the one looked at longest ago goes first.
MOST_BYTES = 2 << 30
# Tables that take less stay in memory.
WORTH_STORING_BYTES = 1 << 25
FACTS = "facts.json"


def read_cached(found: FoundTrace, how: HowRead) -> Timeline:
    """The timeline of a trace, from the cache where this very file was read before. Raises what the source raises."""
    folder = _folder(found)
    kept = _load(folder, how.most_events) if folder is not None else None
    if kept is not None:
        return _with_less_memory(kept, how)
    began = time.perf_counter()
    timeline = _last_steps(found.source.read(found.path, replace(how, pid=found.pid)), how.most_events)
    # What was read with little memory says so, and another look may have more.
    if folder is not None and how.memory_bytes is None and how.most_events is None and time.perf_counter() - began >= WORTH_S:
        _keep(folder, timeline)
    return _with_less_memory(timeline, how)


def _with_less_memory(timeline: Timeline, how: HowRead) -> Timeline:
    """The timeline with large tables in a file, where one can be written: in memory they would stand beside all that is made of them."""
    tables = dict(timeline.tables)
    most = WORTH_STORING_BYTES if how.memory_bytes is None else min(how.memory_bytes // 8, WORTH_STORING_BYTES)
    if sum(table.estimated_size() for table in tables.values()) < most:
        return timeline
    try:
        return replace(timeline, tables=Stored(tables))
    except OSError:
        return timeline


def _root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "slowstep" / "traces"


def _folder(found: FoundTrace) -> Path | None:
    """Where the tables are kept: named for the file's place, size, time and process. None for a folder, whose content may change unseen."""
    if found.path.is_dir():
        return None
    seen = found.path.stat()
    # The code that read it is a part of what was read: another version may read more.
    package = Path(slowstep.__path__[0])
    code = max(file.stat().st_mtime_ns for part in ("sources", "timeline") for file in (package / part).rglob("*.py"))
    key = f"{found.path.resolve()}|{found.pid}|{seen.st_size}|{seen.st_mtime_ns}|{found.source.name}|{slowstep.__version__}|{code}"
    return _root() / hashlib.sha256(key.encode()).hexdigest()[:32]


def _last_steps(timeline: Timeline, most_events: int | None) -> Timeline:
    """The timeline without its first steps, where the source kept more events than are wanted."""
    found = None if most_events is None else last_steps(of_tables(timeline.tables), most_events)
    if found is None or timeline.trace is None:
        return timeline
    tables, steps = found
    trace = replace(timeline.trace, events=sum(map(len, tables.values())))
    return replace(timeline, tables={**timeline.tables, **tables}, trace=trace, health=(*timeline.health, left_out(steps)))


def _load(folder: Path, most_events: int | None) -> Timeline | None:
    """What was kept, or of more events than are wanted the last steps; None where nothing was, or what another version kept."""

    def column(table: str, name: str) -> pl.Series:
        return pl.read_ipc(folder / f"{table}.arrow", columns=[name])[name]

    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        cut, steps = (last_steps(column, most_events) if most_events is not None else None) or ({}, 0)
        whole = [table.name for table in TRACE_TABLES if table.name not in cut]
        tables = cut | {name: light(pl.read_ipc(folder / f"{name}.arrow").iter_columns()) for name in whole}
        os.utime(folder)
        trace = facts["trace"] | {"recorded": frozenset(facts["trace"]["recorded"]), "files": tuple(facts["trace"]["files"])}
        trace["clock_ns"] = None if trace["clock_ns"] is None else tuple(trace["clock_ns"])
        words = {name: tuple(value) for name, value in facts["run"].items() if isinstance(value, list)}
        run = facts["run"] | words
        return Timeline(
            source=facts["source"],
            tables=tables,
            processes=(),
            run=RunFacts(**run),
            health=(*map(_health, facts["health"]), *([left_out(steps)] if steps else [])),
            trace=TraceFacts(**trace | ({"events": sum(map(len, cut.values()))} if cut else {})),
            coverage={kind: _stated(*stated) for kind, stated in facts["coverage"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        return None


def _keep(folder: Path, timeline: Timeline) -> None:
    """Keep the tables; where that fails (no room, no permission) the next look reads the trace again, and nothing else is lost."""
    if timeline.trace is None:
        return
    unfinished = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
        for table in TRACE_TABLES:
            timeline.table(table.name).write_ipc(unfinished / f"{table.name}.arrow", compression="lz4")
        trace = asdict(replace(timeline.trace, recorded=frozenset())) | {"recorded": sorted(timeline.trace.recorded)}
        facts = {
            "source": timeline.source,
            "trace": trace,
            "run": asdict(timeline.run),
            "health": [_as_kept(row) for row in timeline.health],
            "coverage": {kind: (stated.known, stated.steps) for kind, stated in timeline.coverage.items()},
        }
        (unfinished / FACTS).write_text(json.dumps(facts), encoding="utf-8")
        unfinished.rename(folder)
        _make_room(folder.parent)
    except (OSError, pl.exceptions.PolarsError):
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)


def _stated(known: str, steps: str) -> KindCoverage:
    """What was stated of a kind, of what was kept: that of a trace."""
    return KindCoverage(CoverageLevel(known), CoveredSteps(steps))


def _as_kept(row: Health) -> dict[str, Any]:
    """A record of health as it is kept; those of traces have plain values."""
    kind = {"name": row.name, "severity": row.severity, "template": row.remedy.wording.template}
    return {"kind": kind, "count": row.count, "values": dict(row.remedy.values)}


def _health(kept: dict[str, Any]) -> Health:
    return HealthKind(**kept["kind"])(kept["count"], **kept["values"])


def _make_room(root: Path) -> None:
    kept = sorted((child for child in root.iterdir() if child.is_dir()), key=lambda child: child.stat().st_mtime, reverse=True)
    total = 0
    for child in kept:
        total += sum(file.stat().st_size for file in child.iterdir())
        if total > MOST_BYTES:
            shutil.rmtree(child, ignore_errors=True)
