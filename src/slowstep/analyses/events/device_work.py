"""What ran on the device that is judged, joined with the host calls that launched it."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.analyses.events.kernel_class import is_collective
from slowstep.analyses.events.runtime_calls import calls_of_runtime, outer_calls
from slowstep.timeline.timeline import Timeline, found_once

COLUMNS: Final = ("device", "start_ns", "end_ns", "stream", "kind", "name", "collective", "correlation", "from_graph")


@found_once
def busiest_device(timeline: Timeline) -> int | None:
    """The device with most kernel time (with most time of any work, where there is no kernel); None where nothing ran on a device."""
    events = timeline.rows("device_events", "device", "start_ns", "end_ns", "kind")
    length = pl.col("end_ns") - pl.col("start_ns")
    kernels = pl.when(pl.col("kind") == "kernel").then(length).otherwise(0)
    sums = events.group_by("device").agg(kernels.sum().alias("kernels"), length.sum().alias("all"))
    ranked = sums.sort(["kernels", "all", "device"], descending=[True, True, False])
    return None if ranked.is_empty() else int(ranked["device"][0])


def work_kinds(events: pl.DataFrame) -> pl.Series:
    """The column `kind` of device events, shape (n,): that of the timeline, and "collective" for the kernels of collectives."""
    collective = is_collective(events["name"]).fill_null(False) | events["collective"].is_not_null()
    kind = events["kind"].cast(pl.String)
    return kind.set((kind == "kernel") & collective, "collective")


@found_once
def launching_calls(timeline: Timeline) -> pl.DataFrame:
    """The host calls that have a correlation: `correlation`, `launch_thread`, `launch_start_ns`, `launch_end_ns`; one row a number."""
    calls = outer_calls(calls_of_runtime(timeline).filter(pl.col("correlation").is_not_null()), "correlation")
    return calls.select("correlation", launch_thread="thread", launch_start_ns="start_ns", launch_end_ns="end_ns")


def device_work(timeline: Timeline, device: int) -> pl.DataFrame:
    """One row per event of the device, in order of time: `start_ns`, `end_ns`, `kind` (of `work_kinds`) and what `launching_calls` tells,
    null if unknown.
    """
    events = timeline.rows("device_events", *COLUMNS).filter(pl.col("device") == device)
    rows = events.with_columns(work_kinds(events)).select("start_ns", "end_ns", "stream", "kind", "correlation", "from_graph")
    rows = rows.join(launching_calls(timeline), on="correlation", how="left")
    order = ["start_ns", "launch_start_ns", "launch_end_ns", "launch_thread", "end_ns", "stream", "kind", "correlation"]
    return rows.sort(order, nulls_last=True)
