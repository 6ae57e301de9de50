"""The table `synchronizations`: host calls that wait for the device, who makes them, and what the device then lacks."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.device.waits import read_waits, rows_that_copied, waits_for_copies
from slowstep.analyses.events.tables import SYNCHRONIZATIONS
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.steps.step_lookup import in_window
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline


def find_synchronizations(timeline: Timeline, steps: pl.DataFrame, gaps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table SYNCHRONIZATIONS of the calls that begin inside the window; `gaps` is the table GAPS. Most run-dry time first.

    Calls that allocate or free memory and wait thereby have rows of their own, by their names (`cudaFree`).
    """
    callers = callers or Callers(timeline)
    waits = read_waits(timeline, callers)
    waits = waits.with_columns(_run_dry(waits, gaps), *_read_back(timeline, callers, waits))
    rows = in_window(waits, steps, host=True)
    grouped = rows.group_by("call", "operator", "where").agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("step").n_unique().cast(pl.Int64).alias("steps"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("host_wait_ns"),
        pl.col("run_dry_ns").sum(),
        pl.col("reads_back").any(),
        pl.when(pl.col("bytes").is_not_null().any()).then(pl.col("bytes").sum()).alias("bytes"),
    )
    grouped = grouped.sort(-pl.col("run_dry_ns"), -pl.col("host_wait_ns"), "call", "operator", "where")
    return grouped.select(pl.col(column.name).cast(column.type) for column in SYNCHRONIZATIONS.columns)


def _run_dry(waits: pl.DataFrame, gaps: pl.DataFrame) -> pl.Series:
    """Of each wait the time of the gaps that are charged to it: to the last wait of that thread that began before the gap or with it."""
    dry = gaps.filter((pl.col("kind") == PartKind.RUN_DRY.value) & pl.col("thread").is_not_null())
    if dry.is_empty() or waits.is_empty():
        return pl.Series("run_dry_ns", np.zeros(waits.height, dtype=np.int64))
    starts = waits.select("thread", "start_ns", "call").with_row_index("row").sort("start_ns")
    pieces = dry.select("thread", "start_ns", "call", (pl.col("end_ns") - pl.col("start_ns")).alias("ns")).sort("start_ns")
    by_call = pieces.join_asof(starts, on="start_ns", by=["thread", "call"], strategy="backward", check_sortedness=False)
    of_any = pieces.join_asof(starts.drop("call"), on="start_ns", by="thread", strategy="backward", check_sortedness=False)
    row = pl.coalesce(by_call["row"], of_any["row"])
    found = pieces.select("ns", row.alias("row")).filter(pl.col("row").is_not_null())
    sums: Ints = np.bincount(found["row"].to_numpy(), weights=found["ns"].to_numpy(), minlength=waits.height).astype(np.int64)
    return pl.Series("run_dry_ns", sums)


def _read_back(timeline: Timeline, callers: Callers, waits: pl.DataFrame) -> list[pl.Series]:
    """`reads_back` and `bytes` of each wait: whether a copy to the host was waited for in it, and how much such copies carried.

    Where the call that copied waits and another one after it as well, both read back; the bytes are told of the last.
    """
    device = timeline.rows("device_events", "kind", "bytes", "correlation")
    copied = pl.DataFrame({"row": waits_for_copies(timeline, callers, waits), "bytes": device["bytes"]})
    back = (device["kind"] == "d2h").fill_null(value=False)
    copied = (
        copied.filter(back & (pl.col("row") >= 0))
        .group_by("row")
        .agg(pl.col("bytes").sum(), pl.col("bytes").is_null().any().alias("unknown"))
    )
    rows = pl.DataFrame({"row": np.arange(waits.height)}).join(copied, on="row", how="left", maintain_order="left")
    itself = rows_that_copied(waits, device.filter(back)["correlation"])
    reads = rows["unknown"].is_not_null() | rows["row"].is_in(np.unique(itself).tolist())
    return [reads.alias("reads_back"), rows.select(pl.when(~pl.col("unknown")).then("bytes").alias("bytes"))["bytes"]]
