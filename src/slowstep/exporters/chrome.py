"""A trace with what slowstep found in it, as Perfetto and chrome://tracing open it: host threads, streams, steps, stages, findings.

Of a recording it shows the steps, and what each thread did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from slowstep.analyses.events.parts import COLUMNS, part_of
from slowstep.analyses.ledger.instants import find_stretches
from slowstep.analyses.measurements import Measurements
from slowstep.exporters._exporter import Exporter, ReportMapping
from slowstep.exporters._finding_tracks import finding_track
from slowstep.exporters._measured_tables import measured_tables
from slowstep.exporters._recording import recording_events, recording_names
from slowstep.exporters._trace_events import OWN_PID, first_of_all, named, write_events
from slowstep.findings import Finding
from slowstep.part_words import part_in_words
from slowstep.timeline.timeline import Timeline

STEPS_TID, STAGES_TID, FIRST_FINDING_TID = 1, 2, 3
# Devices are shown as processes after it.
FIRST_DEVICE_PID = 2_000_000_001

# By the number of their row: the rules of findings, and when what each is about happened.
Tracks = Mapping[int, tuple[str, pl.DataFrame]]


def write(target: Path, timeline: Timeline, m: Measurements, report: ReportMapping, findings: Sequence[Finding]) -> None:
    """Write it, gzipped where the target's name ends in `.gz`. Raises UnwritableOutput where the target exists or cannot be written."""
    if not m.are_steps_marked:
        write_events(target, recording_names(timeline), recording_events(timeline, m))
        return
    tables = measured_tables(m)
    stretches = find_stretches(timeline, tables["steps"], tables["gaps"])
    tracks = {
        FIRST_FINDING_TID + number: (finding.rule, finding_track(finding, stretches, timeline, tables))
        for number, finding in enumerate(findings)
    }
    shown = {tid: (rule, rows) for tid, (rule, rows) in tracks.items() if rows.height}
    write_events(target, _names(timeline, shown), _events(timeline, tables["steps"], stretches, shown))


def _names(timeline: Timeline, tracks: Tracks) -> Iterator[dict[str, Any]]:
    """What rows are called, and their order."""
    yield named("process_name", OWN_PID, 0, "slowstep")
    yield first_of_all(OWN_PID)
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


def _events(timeline: Timeline, steps: pl.DataFrame, stretches: pl.DataFrame, tracks: Tracks) -> Iterator[pl.DataFrame]:
    yield _own(steps, pl.format("step {}", "number"), STEPS_TID, pl.lit("step"))
    yield _own(_with_words(stretches), pl.format("{}: {}", "stage", "words"), STAGES_TID, pl.col("stage"))
    for tid, (rule, rows) in tracks.items():
        yield _own(rows, pl.lit(rule), tid, pl.lit("finding"))
    threads = timeline.table("trace_threads").select(
        "thread", pid=pl.col("pid").fill_null(0), tid=pl.coalesce("tid", pl.col("thread").cast(pl.Int64))
    )
    hosts = timeline.table("host_events").join(threads, on="thread", how="left")
    yield _traced(hosts, pl.col("pid"), pl.col("tid"))
    devices = timeline.table("device_events")
    yield _traced(devices, pl.col("device").cast(pl.Int64) + FIRST_DEVICE_PID, pl.col("stream"))


def _with_words(stretches: pl.DataFrame) -> pl.DataFrame:
    """The stretches, with the words of the part of each."""
    parts = stretches.select(COLUMNS).unique()
    words = pl.Series("words", [part_in_words(part_of(row)) for row in parts.iter_rows()], dtype=pl.String)
    return stretches.join(parts.with_columns(words), on=COLUMNS, how="left", nulls_equal=True, maintain_order="left")


def _own(rows: pl.DataFrame, name: pl.Expr, tid: int, category: pl.Expr) -> pl.DataFrame:
    """Events on a row of our own."""
    return rows.select("start_ns", "end_ns", name=name, cat=category, pid=pl.lit(OWN_PID), tid=pl.lit(tid))


def _traced(rows: pl.DataFrame, pid: pl.Expr, tid: pl.Expr) -> pl.DataFrame:
    """Events of the trace."""
    return rows.select("start_ns", "end_ns", name=pl.col("name").cast(pl.String), cat=pl.col("kind").cast(pl.String), pid=pid, tid=tid)


EXPORTER = Exporter(
    name="chrome",
    suffix=".slowstep.json.gz",
    writes="a trace for Perfetto with findings as tracks, gzipped where its name ends in .gz",
    write=write,
)
