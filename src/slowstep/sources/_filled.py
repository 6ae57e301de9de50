"""Frames of whatever columns become declared tables of a trace."""

from __future__ import annotations

import polars as pl

from slowstep.health import Health
from slowstep.timeline.schema import TABLE


def filled(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with exactly the declared columns: null where it lacks one, or where a value does not fit into the type."""
    columns = [
        (pl.col(column.name) if column.name in frame.columns else pl.lit(None)).cast(column.type, strict=False).alias(column.name)
        for column in TABLE[name].columns
    ]
    return frame.select(columns)


def timed(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows that have a begin and do not end before it, and how many others there were."""
    # A negative or zero begin is how profilers write "not measured".
    sane = frame.filter((pl.col("start_ns") > 0) & (pl.col("end_ns") >= pl.col("start_ns")))
    return sane, len(frame) - len(sane)


def clock_doubts(host: pl.DataFrame, device: pl.DataFrame) -> list[Health]:
    """What says that host and device do not share a clock: kernels that run before the call that launched them."""
    launches = host.filter(pl.col("correlation").is_not_null()).group_by("correlation").agg(pl.col("start_ns").min().alias("called_ns"))
    early = device.join(launches, on="correlation").filter(pl.col("start_ns") < pl.col("called_ns"))
    if early.is_empty():
        return []
    return [
        Health(
            name="work-before-its-launch",
            severity="notice",
            count=len(early),
            remedy="the clocks of host and device differ, so short gaps and launch delays are doubtful; record again with a newer profiler",
        )
    ]
