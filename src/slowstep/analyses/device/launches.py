"""The table `launches`: by step, how the host kept the device supplied with work."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import LAUNCHES_GRAPH, LAUNCHES_KERNEL, calls_of_runtime, outer_calls
from slowstep.analyses.events.tables import LAUNCHES
from slowstep.analyses.events.unions import Union
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.steps.step_lookup import in_window
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")


def find_launches(timeline: Timeline, steps: pl.DataFrame, gaps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table LAUNCHES, a row for every step. A trace without calls of the runtime has null where they would be needed.

    `gaps`: the table of that name.
    """
    own = timeline.rows("device_events", "start_ns", "end_ns", "kind", "from_graph")
    device = pl.concat([own, (callers or Callers(timeline)).launch_calls.select("call_end_ns")], how="horizontal")
    calls = launch_calls(timeline)
    typical_ns = (calls["end_ns"] - calls["start_ns"]).median()
    of_gaps = gaps.group_by("step").agg(pl.col("gap").n_unique().cast(pl.Int64).alias("gaps"), _LENGTH.sum().alias("gap_ns"))
    rows = steps.select("step", "start_ns", "end_ns")
    for found in (_of_kernels(device, steps, typical_ns), _of_calls(calls, steps), of_gaps):
        rows = rows.join(found, on="step", how="left")
    counts = pl.col("kernels", "launches", "graph_launches", "launch_ns", "short_kernels", "gaps", "gap_ns").fill_null(0)
    rows = rows.with_columns(counts, *_queue(device, steps)).with_columns(
        pl.when(pl.lit(typical_ns is not None)).then("short_kernels").alias("short_kernels")
    )
    return rows.sort("step").select(pl.col(column.name).cast(column.type) for column in LAUNCHES.columns)


def _of_kernels(device: pl.DataFrame, steps: pl.DataFrame, typical_ns: Any) -> pl.DataFrame:
    """Of each step's kernels: how many, how long, how long after their launch, and how many are shorter than a launch takes."""
    kernels = in_window(device.filter(pl.col("kind") == "kernel"), steps)
    delay = pl.when(~pl.col("from_graph")).then((pl.col("start_ns") - pl.col("call_end_ns")).clip(lower_bound=0))
    short = (pl.lit(typical_ns, pl.Float64) > _LENGTH).sum().cast(pl.Int64)
    return kernels.group_by("step").agg(
        pl.len().cast(pl.Int64).alias("kernels"),
        _LENGTH.median().alias("median_kernel_ns"),
        delay.median().alias("median_delay_ns"),
        short.alias("short_kernels"),
    )


def _of_calls(calls: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Of each step's launches: how many, how many of graphs, and what they take."""
    in_steps = in_window(calls, steps, host=True)
    return in_steps.group_by("step").agg(
        pl.len().cast(pl.Int64).alias("launches"),
        pl.col("graph").sum().cast(pl.Int64).alias("graph_launches"),
        _LENGTH.sum().alias("launch_ns"),
    )


def launch_calls(timeline: Timeline) -> pl.DataFrame:
    """The host calls that launch kernels: columns of `host_events`, and `graph`, whether it launches a whole graph."""
    host = calls_of_runtime(timeline)
    graph = matches(host["name"], LAUNCHES_GRAPH).alias("graph")
    found = host.with_columns(graph).filter(graph | matches(host["name"], LAUNCHES_KERNEL))
    return outer_calls(found, "correlation", "thread", "start_ns")


def _queue(device: pl.DataFrame, steps: pl.DataFrame) -> list[pl.Series]:
    """`queue_depth` and `queue_empty_share` of each step, shape (steps,); null where no launch is in the trace."""
    launched = device.filter(pl.col("call_end_ns").is_not_null())
    first, last = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    names = ("queue_depth", "queue_empty_share")
    if launched.is_empty():
        return [pl.Series(name, [None] * steps.height, dtype=pl.Float64) for name in names]
    kernels = launched.filter(pl.col("kind") == "kernel")
    begin = kernels["start_ns"].to_numpy()
    waiting = _open_until(np.minimum(kernels["call_end_ns"].to_numpy(), begin), begin, last)
    waiting -= _open_until(np.minimum(kernels["call_end_ns"].to_numpy(), begin), begin, first)
    since = device.select(pl.min_horizontal("start_ns", "call_end_ns"))["start_ns"].to_numpy()
    work = Union(np.zeros(device.height, dtype=np.int64), since, device["end_ns"].to_numpy())
    busy = work.inside(np.zeros(steps.height, dtype=np.int64), first, last)
    length = np.maximum(last - first, 1)
    return [pl.Series(names[0], waiting / length), pl.Series(names[1], 1 - busy / length)]


def _open_until(start_ns: Ints, end_ns: Ints, times_ns: Ints) -> Ints:
    """Length of all intervals before each instant, those that are open at the same time counted each; shape of `times_ns`."""
    return _since(start_ns, times_ns) - _since(end_ns, times_ns)


def _since(edges_ns: Ints, times_ns: Ints) -> Ints:
    """Sum over the edges before each instant of how long ago they were."""
    ordered = np.sort(edges_ns)
    before = np.append(0, np.cumsum(ordered))
    count = np.searchsorted(ordered, times_ns)
    return np.asarray(count * times_ns - before[count])
