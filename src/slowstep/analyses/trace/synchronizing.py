"""Which host calls wait for the device before they return.

Sources: NVIDIA's "API synchronization behavior" in the CUDA runtime's reference (copies without `Async`, and asynchronous ones from the
device to pageable memory, return once the copy is done); cudaFree waits for the device; AMD's HIP reference says the same of its
counterparts, and that `hipMemcpyWithStream` waits for its copy.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.timeline.timeline import Timeline

# Exports of Nsight Systems append the version of the interface: `cudaStreamSynchronize_v3020`.
SYNCHRONIZE: Final = r"^(cuda|hip)(Stream|Device|Event|Thread)Synchronize|^cu(Stream|Ctx|Event)Synchronize|^hipCtxSynchronize"
COPY: Final = r"^(cuda|hip)Memcpy|^cuMemcpy"
ASYNC: Final = r"Async"
FREE: Final = r"^(cuda|hip)Free(_v\d+)?$|^cuMemFree(_v\d+)?$"
# What a copy without `Async` moves decides: within a device the host does not wait.
AWAITED: Final = ("h2d", "d2h")


def synchronizing_calls(timeline: Timeline) -> pl.DataFrame:
    """The calls that wait for the device: `thread`, `start_ns`, `end_ns`, `name`, `correlation`; in order of thread and time."""
    calls = timeline.table("host_events").filter(pl.col("kind").is_in(["runtime", "driver"]))
    calls = calls.select("thread", "start_ns", "end_ns", "name", "correlation")
    names = calls.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
    text = pl.col("text")
    names = names.select(
        "name",
        "text",
        text.str.contains(f"{SYNCHRONIZE}|{FREE}").alias("always"),
        (text.str.contains(COPY) & ~text.str.contains(ASYNC)).alias("copies"),
        (text.str.contains(COPY) & text.str.contains(ASYNC)).alias("copies_later"),
    ).filter(pl.col("always") | pl.col("copies") | pl.col("copies_later"))
    copies = timeline.table("device_events").filter(pl.col("kind").is_in(AWAITED) & pl.col("correlation").is_not_null())
    to_pageable = (pl.col("kind") == "d2h") & pl.col("pageable")
    copies = copies.group_by("correlation").agg(pl.lit(True).alias("awaited"), to_pageable.any().alias("to_pageable"))
    rows = calls.join(names, on="name", how="inner").join(copies, on="correlation", how="left")
    waits = pl.col("always") | (pl.col("copies") & pl.col("awaited")) | (pl.col("copies_later") & pl.col("to_pageable"))
    rows = rows.filter(waits.fill_null(False))
    return rows.select("thread", "start_ns", "end_ns", pl.col("text").alias("name"), "correlation").sort(
        "thread", "start_ns", "end_ns", "name"
    )
