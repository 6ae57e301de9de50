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


def timed(frame: pl.DataFrame, least_ns: int = 1) -> tuple[pl.DataFrame, int]:
    """The rows that begin at `least_ns` or later and do not end before that, and how many others there were.

    A profiler whose clock began long before the recording writes 0 where a time was not measured.
    """
    sane = frame.filter((pl.col("start_ns") >= least_ns) & (pl.col("end_ns") >= pl.col("start_ns")))
    return sane, len(frame) - len(sane)


def clock_doubts(host: pl.DataFrame, device: pl.DataFrame) -> list[Health]:
    """What says that host and device do not share a clock: they never overlap, or work runs before the call that launched it."""
    if len(host) and len(device) and _apart(host, device):
        remedy = "host and device events never overlap, so their clocks differ: nothing that joins the two can be trusted; record again"
        return [Health(name="clocks-apart", severity="error", count=1, remedy=remedy)]
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


def _apart(host: pl.DataFrame, device: pl.DataFrame) -> bool:
    spans = [frame.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0) for frame in (host, device)]
    (first, last), (other_first, other_last) = spans
    return bool(last < other_first or other_last < first)
