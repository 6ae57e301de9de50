"""Host calls that wait for the device, and which copies they wait for."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import ASKS, calls_of_runtime
from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.analyses.python.callers import Callers
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline


def read_waits(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    """One row per host call that waits for the device (see `synchronizing_calls`), in the order of threads and times.

    Columns: `thread`, `start_ns`, `end_ns`, `call` (its name), `correlation`, those of `Callers.around`, and `span` and `inner`: rows of
    `callers.spans`, of the innermost stretch and of the innermost operator around it.
    """
    found = synchronizing_calls(timeline).rename({"name": "call"})
    span = callers.indices_around(found["thread"], found["start_ns"])
    places = [pl.Series("span", span), pl.Series("inner", callers.innermost_operator(span))]
    return pl.concat([found.with_columns(places), callers.describe(span)], how="horizontal")


def waits_for_copies(timeline: Timeline, callers: Callers, waits: pl.DataFrame) -> Ints:
    """For each device event, shape (n,), the row of `waits` in which the host waited for it if it is a copy; -1 where it did not.

    That is the next waiting call of the same operator (without operators, the next call of the runtime, if that waits); where there is
    none, the call that copied, if it waits itself.
    """
    device = timeline.rows("device_events", "kind", "correlation")
    launched = callers.launch_calls
    found = np.full(device.height, -1, dtype=np.int64)
    copies = np.flatnonzero(device["kind"].is_in(["h2d", "d2h"]).to_numpy() & launched["call"].is_not_null().to_numpy())
    if not len(copies) or waits.is_empty():
        return found
    calls = launched.select("span", "call_thread", "call_start_ns")[copies].with_columns(device["correlation"][copies])
    itself = rows_that_copied(waits, calls["correlation"])
    inner = callers.innermost_operator(calls["span"].to_numpy())
    after = _next_row(waits, "inner", inner, calls["call_start_ns"].to_numpy())
    following = _following(timeline, waits, calls)
    later = np.where(inner >= 0, after, following)
    found[copies] = np.where(later >= 0, later, itself)
    return found


def rows_that_copied(waits: pl.DataFrame, correlations: pl.Series) -> Ints:
    """The row of `waits` that is the call which launched each copy, shape (n,); -1 where that call does not wait."""
    # An asynchronous copy has the same number as a device event, a synchronization has another.
    rows = waits.with_row_index("row").filter(pl.col("correlation").is_not_null() & pl.col("call").str.contains("Memcpy"))
    rows = rows.unique("correlation", keep="first").select("correlation", pl.col("row").cast(pl.Int64))
    joined = correlations.to_frame("correlation").join(rows, on="correlation", how="left", maintain_order="left")
    return joined["row"].fill_null(-1).to_numpy()


def _next_row(waits: pl.DataFrame, key: str, keys: Ints, times_ns: Ints) -> Ints:
    """The first row of `waits` with each key that begins after each time; -1 where there is none."""
    left = pl.DataFrame({"key": keys, "at": times_ns}).with_row_index("asked")
    right = waits.select(pl.col(key).cast(pl.Int64).alias("key"), pl.col("start_ns").alias("at")).with_row_index("row")
    right = right.sort("at")
    joined = left.sort("at").join_asof(right, on="at", by="key", strategy="forward", allow_exact_matches=False, check_sortedness=False)
    return joined.sort("asked")["row"].cast(pl.Int64).fill_null(-1).to_numpy()


def _following(timeline: Timeline, waits: pl.DataFrame, calls: pl.DataFrame) -> Ints:
    host = calls_of_runtime(timeline)
    host = host.filter(~matches(host["name"], ASKS)).select("thread", "start_ns").unique().sort("start_ns")
    left = (
        calls.select(pl.col("call_thread").alias("thread"), pl.col("call_start_ns").alias("start_ns"))
        .with_row_index("asked")
        .sort("start_ns")
    )
    host = host.with_columns(pl.col("start_ns").alias("next_ns"))
    joined = left.join_asof(host, on="start_ns", by="thread", strategy="forward", allow_exact_matches=False, check_sortedness=False)
    rows = waits.select("thread", pl.col("start_ns").alias("next_ns")).with_row_index("row").unique(["thread", "next_ns"], keep="first")
    joined = joined.join(rows, on=["thread", "next_ns"], how="left", maintain_order="left")
    return joined.sort("asked")["row"].cast(pl.Int64).fill_null(-1).to_numpy()
