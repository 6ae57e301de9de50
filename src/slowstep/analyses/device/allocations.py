"""The table `memory`: by step, how much memory was in use, and the calls that allocate it."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import ALLOCATES, calls_of_runtime
from slowstep.analyses.events.tables import MEMORY
from slowstep.analyses.steps.step_lookup import in_window
from slowstep.timeline.timeline import Timeline


def find_allocations(timeline: Timeline, steps: pl.DataFrame) -> pl.DataFrame:
    """The table MEMORY. Calls are counted to the first device of the trace: they do not say to which of several they belong."""
    seen = (
        in_window(timeline.table("allocations"), steps, "time_ns", host=True)
        .group_by("step", "device")
        .agg(pl.col("allocated_bytes").max().alias("peak_allocated_bytes"), pl.col("reserved_bytes").max().alias("peak_reserved_bytes"))
    )
    calls = in_window(allocator_calls(timeline), steps, host=True)
    first = timeline.table("trace_devices")["device"].min()
    made = calls.group_by("step", pl.lit(first if isinstance(first, int) else 0, pl.Int32).alias("device")).agg(
        pl.len().cast(pl.Int64).alias("allocator_calls"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("allocator_ns")
    )
    rows = seen.join(made, on=["step", "device"], how="full", coalesce=True)
    rows = rows.with_columns(pl.col("allocator_calls", "allocator_ns").fill_null(0)).sort("step", "device")
    return rows.select(pl.col(column.name).cast(column.type) for column in MEMORY.columns)


def allocator_calls(timeline: Timeline) -> pl.DataFrame:
    """The host calls that allocate or free memory of the device or pinned memory: columns of `calls_of_runtime`."""
    calls = calls_of_runtime(timeline)
    return calls.filter(matches(calls["name"], ALLOCATES))
