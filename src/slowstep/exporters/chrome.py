"""A trace with what slowstep found in it, as Perfetto and chrome://tracing open it: host threads, streams, steps, stages, findings.

The format is Chrome's trace event format (JSON object form, complete events): times in microseconds, a row per process and thread.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import polars as pl

from slowstep.analyses.trace.stretches import find_stretches
from slowstep.errors import UnwritableOutput
from slowstep.exporters.finding_tracks import finding_track
from slowstep.timeline.timeline import Timeline

# Rows of our own, above all others: no system gives a process such a number.
OWN_PID = 2_000_000_000
STEPS_TID, STAGES_TID, FIRST_FINDING_TID = 1, 2, 3
# Devices are shown as processes after it.
FIRST_DEVICE_PID = 2_000_000_001
# What such a file begins with, so that it is told from a profiler's trace.
MARK = b'{"slowstep"'
# Lines that are written at once.
SLICE = 200_000

# By the number of their row: the rules of findings, and when what each is about happened.
Tracks = Mapping[int, tuple[str, pl.DataFrame]]


def write_chrome(target: Path, timeline: Timeline, tables: Mapping[str, pl.DataFrame], report: Mapping[str, Any]) -> None:
    """Write it, gzipped where the target's name ends in `.gz`. Raises UnwritableOutput where the target exists or cannot be written."""
    stretches = find_stretches(timeline, tables["steps"], tables["gaps"])
    tracks = {
        FIRST_FINDING_TID + number: (finding["rule"], finding_track(finding, stretches, timeline, tables))
        for number, finding in enumerate(report["findings"])
    }
    shown = {tid: (rule, rows) for tid, (rule, rows) in tracks.items() if rows.height}
    try:
        with target.open("xb") as raw, _packed(raw) if target.name.endswith(".gz") else nullcontext(raw) as file:
            file.write(MARK + b': "what was found stands beside the events", "displayTimeUnit": "ms", "traceEvents": [\n')
            file.write(",\n".join(json.dumps(row) for row in _names(timeline, shown)).encode())
            for line in _lines(timeline, tables["steps"], stretches, shown):
                file.write(b",\n" + line)
            file.write(b"\n]}\n")
    except FileExistsError:
        raise UnwritableOutput(f"{target} exists already, and is not written over. Give another place with --export-to.") from None
    except OSError as error:
        target.unlink(missing_ok=True)
        raise UnwritableOutput(f"{target} cannot be written: {error.strerror or error}.") from error


def _packed(raw: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3)


def _names(timeline: Timeline, tracks: Tracks) -> Iterator[dict[str, Any]]:
    """What rows are called, and their order."""

    def named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}

    yield named("process_name", OWN_PID, 0, "slowstep")
    yield {"ph": "M", "name": "process_sort_index", "pid": OWN_PID, "tid": 0, "args": {"sort_index": -1}}
    yield named("thread_name", OWN_PID, STEPS_TID, "steps")
    yield named("thread_name", OWN_PID, STAGES_TID, "stages")
    for tid, (rule, _) in tracks.items():
        yield named("thread_name", OWN_PID, tid, f"finding {tid - FIRST_FINDING_TID + 1}: {rule}")
    for row in timeline.table("trace_threads").iter_rows(named=True):
        tid = row["thread"] if row["tid"] is None else row["tid"]
        yield named("thread_name", row["pid"] or 0, tid, row["name"] or f"thread {tid}")
    for row in timeline.table("trace_devices").iter_rows(named=True):
        yield named("process_name", FIRST_DEVICE_PID + row["device"], 0, f"device {row['device']}: {row['name'] or 'unknown'}")
    for device, stream in timeline.rows("device_events", "device", "stream").unique().sort("device", "stream").iter_rows():
        yield named("thread_name", FIRST_DEVICE_PID + device, stream, f"stream {stream}")


def _lines(timeline: Timeline, steps: pl.DataFrame, stretches: pl.DataFrame, tracks: Tracks) -> Iterator[bytes]:
    yield from _written(_own(steps, pl.format("step {}", "number"), STEPS_TID, pl.lit("step")))
    yield from _written(_own(stretches, pl.format("{}: {}", "stage", "part"), STAGES_TID, pl.col("stage")))
    for tid, (rule, rows) in tracks.items():
        yield from _written(_own(rows, pl.lit(rule), tid, pl.lit("finding")))
    threads = timeline.table("trace_threads").select(
        "thread", pid=pl.col("pid").fill_null(0), tid=pl.coalesce("tid", pl.col("thread").cast(pl.Int64))
    )
    hosts = timeline.table("host_events").join(threads, on="thread", how="left")
    yield from _written(_traced(hosts, pl.col("pid"), pl.col("tid")))
    devices = timeline.table("device_events")
    yield from _written(_traced(devices, pl.col("device").cast(pl.Int64) + FIRST_DEVICE_PID, pl.col("stream")))


def _own(rows: pl.DataFrame, name: pl.Expr, tid: int, category: pl.Expr) -> pl.DataFrame:
    """Events on a row of our own."""
    return rows.select("start_ns", "end_ns", name=name, cat=category, pid=pl.lit(OWN_PID), tid=pl.lit(tid))


def _traced(rows: pl.DataFrame, pid: pl.Expr, tid: pl.Expr) -> pl.DataFrame:
    """Events of the trace."""
    return rows.select("start_ns", "end_ns", name=pl.col("name").cast(pl.String), cat=pl.col("kind").cast(pl.String), pid=pid, tid=tid)


def _written(events: pl.DataFrame) -> Iterator[bytes]:
    """Complete events as lines of JSON, many at a time."""
    for piece in events.iter_slices(SLICE):
        lines = piece.select(
            pl.struct(
                ph=pl.lit("X"),
                name="name",
                cat="cat",
                pid="pid",
                tid="tid",
                ts=pl.col("start_ns") / 1000,
                dur=(pl.col("end_ns") - pl.col("start_ns")) / 1000,
            ).struct.json_encode()
        ).to_series()
        if len(lines):
            yield ",\n".join(lines.to_list()).encode()
