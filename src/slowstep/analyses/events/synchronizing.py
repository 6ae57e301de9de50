"""Which host calls wait for the device before they return."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.analyses.events.runtime_calls import ALLOCATES_AND_WAITS, COPIES_AND_WAITS, WAITS, calls_of_runtime
from slowstep.timeline.timeline import Timeline, found_once
from slowstep.timeline.trace_tables import DEVICE_KINDS

ASYNCHRONOUS_COPY: Final = r"^(cuda|hip|cu)Memcpy\w*Async"
# What a copy without `Async` moves decides: within a device the host does not wait.
AWAITED: Final = ("h2d", "d2h")


@found_once
def synchronizing_calls(timeline: Timeline) -> pl.DataFrame:
    """The calls that wait for the device: `thread`, `start_ns`, `end_ns`, `name`, `correlation`; in order of thread and time.

    Of copies those that wait by their name, where the copy is not known to be one within the device, and asynchronous ones to pageable
    memory (CUDA Runtime API, synchronization behaviour).
    """
    calls = calls_of_runtime(timeline).select("thread", "start_ns", "end_ns", "name", "correlation")
    names = calls.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
    text = pl.col("text")
    names = names.with_columns(
        text.str.contains(f"{WAITS}|{ALLOCATES_AND_WAITS}").alias("always"),
        text.str.contains(COPIES_AND_WAITS).alias("copies"),
        text.str.contains(ASYNCHRONOUS_COPY).alias("copies_later"),
    ).filter(pl.col("always") | pl.col("copies") | pl.col("copies_later"))
    copies = timeline.rows("device_events", "correlation", "kind", "pageable", kinds=[kind for kind in DEVICE_KINDS if kind != "kernel"])
    copies = copies.drop_nulls("correlation")
    awaited, to_pageable = pl.col("kind").is_in(AWAITED), (pl.col("kind") == "d2h") & pl.col("pageable")
    copies = copies.group_by("correlation").agg(awaited.any().alias("awaited"), to_pageable.any().alias("to_pageable"))
    rows = calls.join(names, on="name", how="inner").join(copies, on="correlation", how="left")
    waits = pl.col("always") | (pl.col("copies") & pl.col("awaited").fill_null(True)) | (pl.col("copies_later") & pl.col("to_pageable"))
    rows = rows.filter(waits.fill_null(value=False))
    return rows.select("thread", "start_ns", "end_ns", text.alias("name"), "correlation").sort("thread", "start_ns", "end_ns", "name")
