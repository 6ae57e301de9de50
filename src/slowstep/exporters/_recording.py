"""A recording as events of a trace: its steps, and what each thread did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.exporters._measured_tables import steps_of_window
from slowstep.exporters._trace_events import OWN_PID, first_of_all, named
from slowstep.timeline.timeline import Timeline

STEPS_TID = 1
# Tables whose rows are stretches of a thread, and what a row of each is called.
THREADS_DID: dict[str, pl.Expr] = {
    "waits": pl.format("wait for batch {}", pl.col("batch").cast(pl.String).fill_null("?")),
    "starts": pl.lit("make an iterator of the loader"),
    "updates": pl.lit("optimizer"),
    "spans": pl.coalesce("name", "kind"),
    "fetches": pl.format("make batch {}", pl.col("batch").cast(pl.String).fill_null("?")),
    "collates": pl.lit("collate"),
    "collections": pl.lit("garbage collection"),
    "idles": pl.lit("idle"),
}


def recording_names(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """What rows of its trace are called."""
    yield named("process_name", OWN_PID, 0, "slowstep")
    yield first_of_all(OWN_PID)
    yield named("thread_name", OWN_PID, STEPS_TID, "steps")
    for row in timeline.table("processes").iter_rows(named=True):
        yield named("process_name", row["pid"], 0, f"{row['role']} {row['pid']}")
    pids = dict(timeline.table("processes").select("process", "pid").iter_rows())
    for row in timeline.table("threads").iter_rows(named=True):
        yield named("thread_name", pids.get(row["process"], 0), row["thread"], row["name"] or f"thread {row['thread']}")


def recording_events(timeline: Timeline, m: Measurements) -> Iterator[pl.DataFrame]:
    """The steps, and what each thread did."""
    steps = steps_of_window(m)
    own = {"cat": pl.lit("step"), "pid": pl.lit(OWN_PID), "tid": pl.lit(STEPS_TID)}
    yield steps.select("start_ns", "end_ns", name=pl.format("step {}", "step"), **own)
    pids = timeline.table("processes").select("process", "pid")
    for name, label in THREADS_DID.items():
        rows = timeline.table(name).join(pids, on="process", how="inner")
        yield rows.select(
            "start_ns", "end_ns", name=label.cast(pl.String), cat=pl.lit(name), pid="pid", tid=pl.col("thread").cast(pl.Int64)
        )
