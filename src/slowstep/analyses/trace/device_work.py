"""What ran on the device that is judged, joined with the host calls that launched it."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.trace.kernel_class import is_collective
from slowstep.timeline.timeline import Timeline


def busiest_device(timeline: Timeline) -> int | None:
    """The device with most kernel time (with most time of any work, where there is no kernel); None where nothing ran on a device."""
    events = timeline.table("device_events")
    length = pl.col("end_ns") - pl.col("start_ns")
    kernels = pl.when(pl.col("kind") == "kernel").then(length).otherwise(0)
    sums = events.group_by("device").agg(kernels.sum().alias("kernels"), length.sum().alias("all"))
    ranked = sums.sort(["kernels", "all", "device"], descending=[True, True, False])
    return None if ranked.is_empty() else int(ranked["device"][0])


def launch_calls(timeline: Timeline) -> pl.DataFrame:
    """The host calls that have a correlation: `correlation`, `launch_thread`, `launch_start_ns`, `launch_end_ns`; one row a number.

    A call of the runtime may be traced once more as the call of the driver that it makes: the outer one counts.
    """
    calls = timeline.table("host_events").filter(pl.col("correlation").is_not_null() & pl.col("kind").is_in(["runtime", "driver"]))
    calls = calls.sort("kind", "start_ns", "end_ns", "thread").unique("correlation", keep="first", maintain_order=True)
    return calls.select("correlation", launch_thread="thread", launch_start_ns="start_ns", launch_end_ns="end_ns")


def device_work(timeline: Timeline, device: int) -> pl.DataFrame:
    """One row per event of the device, in order of time: `start_ns`, `end_ns`, `kind` and the columns of `launch_calls`, null if unknown.

    `kind` is that of the timeline, and "collective" for the kernels of collectives.
    """
    events = timeline.table("device_events").filter(pl.col("device") == device)
    collective = is_collective(events["name"]).fill_null(False) | events["collective"].is_not_null()
    kind = pl.when((pl.col("kind") == "kernel") & collective).then(pl.lit("collective")).otherwise(pl.col("kind").cast(pl.String))
    rows = events.with_columns(kind.alias("kind")).select("start_ns", "end_ns", "stream", "kind", "correlation", "from_graph")
    rows = rows.join(launch_calls(timeline), on="correlation", how="left")
    order = ["start_ns", "launch_start_ns", "launch_end_ns", "launch_thread", "end_ns", "stream", "kind", "correlation"]
    return rows.sort(order, nulls_last=True)
