"""The host thread that trains: the one whose requests for input are waits, and whose steps are counted."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.timeline import Timeline, found_once

# What frameworks call it, and people their own ranges.
OPTIMIZER_RANGE: Final = rf"^\W*optimizer(\.step)?\W*$|{events(Event.UPDATE)}"
BACKWARD: Final = events(Event.BACKWARD)


@found_once
def training_thread(timeline: Timeline) -> int | None:
    """The thread that marks steps, else that calls the optimizer, else that launches most, else with most operators outside the backward.

    None where the trace has no host events.
    """
    marks = timeline.table("marked_steps").filter(pl.col("thread").is_not_null())
    if len(marks):
        return _most(marks)
    host = timeline.rows("host_events", "thread", "kind", "name", "correlation")
    names = host.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
    optimizer = names.filter(pl.col("text").str.contains(OPTIMIZER_RANGE))
    steps = host.join(optimizer, on="name", how="semi")
    if len(steps):
        return _most(steps)
    backward = host.join(names.filter(pl.col("text").str.contains(BACKWARD)), on="name", how="semi")
    launches = pl.col("correlation").is_not_null() & pl.col("kind").is_in(["runtime", "driver"])
    operators = pl.col("kind") == "operator"
    only_backward = backward.select("thread").unique()
    for wanted in (launches, operators, pl.lit(value=True)):
        rows = host.filter(wanted).select("thread")
        forward = rows.join(only_backward, on="thread", how="anti")
        if len(rows):
            return _most(forward if len(forward) * 10 >= len(rows) else rows)
    return None


def _most(rows: pl.DataFrame) -> int:
    counts = rows.group_by("thread").len().sort(["len", "thread"], descending=[True, False])
    return int(counts["thread"][0])
