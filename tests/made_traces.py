"""Builds timelines of traces from a few rows, for tests of what reads them. Times are given in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from slowstep.sources._covered import covered_by_trace
from slowstep.timeline.coverage import KINDS, TRACED
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace import TraceFacts

DEFAULTS: dict[str, dict[str, Any]] = {
    "host_events": {"thread": 0},
    "device_events": {"device": 0, "stream": 7, "from_graph": False},
    "marked_steps": {"thread": 0, "mark": "ProfilerStep"},
    "handed_work": {"for_thread": 0, "works": True},
}


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A declared table from rows; `start` and `end` stand for `start_ns` and `end_ns` in microseconds, columns left out are null."""
    full = []
    for row in rows:
        given = dict(row)
        for short in ("start", "end", "time", "handed"):
            if short in given:
                given[f"{short}_ns"] = round(given.pop(short) * 1000)
        full.append({column.name: None for column in TABLE[name].columns} | DEFAULTS.get(name, {}) | given)
    return pl.DataFrame(full, schema=TABLE[name].schema) if full else TABLE[name].empty()


def host(name: str, start: float, end: float, kind: str = "operator", **more: Any) -> dict[str, Any]:
    return {"name": name, "start": start, "end": end, "kind": kind, **more}


def device(name: str, start: float, end: float, kind: str = "kernel", **more: Any) -> dict[str, Any]:
    return {"name": name, "start": start, "end": end, "kind": kind, **more}


def step(number: int, start: float, end: float, **more: Any) -> dict[str, Any]:
    return {"number": number, "start": start, "end": end, **more}


def made_trace(
    *,
    hosts: Iterable[Mapping[str, Any]] = (),
    devices: Iterable[Mapping[str, Any]] = (),
    steps: Iterable[Mapping[str, Any]] = (),
    allocations: Iterable[Mapping[str, Any]] = (),
    handed: Iterable[Mapping[str, Any]] = (),
    recorded: Iterable[str] = ("operators", "runtime", "device", "shapes", "annotations"),
    **facts: Any,
) -> Timeline:
    """A trace of one rank, with its threads and devices."""
    host_rows, device_rows = list(hosts), list(devices)
    threads = sorted({row.get("thread", 0) for row in host_rows})
    numbers = sorted({row.get("device", 0) for row in device_rows})
    tables = {
        "trace_threads": table("trace_threads", [{"thread": n, "pid": 100, "tid": 100 + n} for n in threads]),
        "trace_devices": table("trace_devices", [{"device": n, "name": "NVIDIA A100", "compute_capability": 8.0} for n in numbers]),
        "host_events": table("host_events", host_rows),
        "device_events": table("device_events", device_rows),
        "marked_steps": table("marked_steps", steps),
        "allocations": table("allocations", allocations),
        "handed_work": table("handed_work", handed),
    }
    kept = {"format": "made", "files": ("made.json",), "bytes": 0, "events": len(host_rows) + len(device_rows)}
    run = RunFacts(name="made", command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    trace = TraceFacts(**(kept | {"recorded": frozenset(recorded), "rank": 0, "vendor": "nvidia"} | facts))
    coverage = covered_by_trace(dict.fromkeys(KINDS, TRACED), tables)
    return Timeline(source="made", tables=tables, processes=(), run=run, health=(), trace=trace, coverage=coverage)
