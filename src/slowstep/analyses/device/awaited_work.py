"""By how much work begins after calls have returned that waited for it: never, if host and device have one clock.

What a call waits for is certain of few calls only. One that waits for the whole device waits for all that was launched before it. A copy
to the host that waits by its name waits for itself. The wait right after an asynchronous copy to the host is that copy's where one of
PyTorch's operators makes both, as `item()` does (ATen's `copy_` and `_local_scalar_dense` wait for the stream that they copy on), and
where the copy goes to pageable memory: then it has been waited for even before (CUDA Runtime API, synchronization behaviour). Elsewhere it
may be a wait for another stream.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.device_work import launching_calls
from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import ASKS, COPIES_AND_WAITS, calls_of_runtime
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

WHOLE_DEVICE: Final = r"^(cuda|hip)(Device|Thread)Synchronize|^(cu|hip)CtxSynchronize"
STREAM_OR_DEVICE: Final = rf"^(cuda|hip|cu)StreamSynchronize|{WHOLE_DEVICE}"
NONE: Final = np.zeros(0, dtype=np.int64)


def begins_after_waits(timeline: Timeline, device: int, start: Ints, sent: Ints) -> Ints:
    """Of each wait by how much, ns, what it waited for on the device begins after its return; below 0 where that begins before.

    `start` and `sent`, shape (n,): when the device's work began and was launched.
    """
    return np.concatenate([_whole_device(timeline, start, sent), _own_copies(timeline, device)])


def _whole_device(timeline: Timeline, start: Ints, sent: Ints) -> Ints:
    """Of each call that waits for the whole device; none where there are several, as which of them is waited for is not told."""
    if not len(start) or timeline.rows("device_events", "device")["device"].n_unique() > 1:
        return NONE
    calls = calls_of_runtime(timeline)
    calls = calls.filter(matches(calls["name"], WHOLE_DEVICE))
    calls, order = calls.sort("start_ns"), np.argsort(sent, kind="stable")
    before = np.searchsorted(sent[order], calls["start_ns"].to_numpy())
    # Each call is held against what was launched since the one before it.
    first = np.append(0, before[:-1])
    told = before > first
    if not told.any():
        return NONE
    return np.asarray(np.maximum.reduceat(start[order][: before[-1]], first[told]) - calls["end_ns"].to_numpy()[told])


def _own_copies(timeline: Timeline, device: int) -> Ints:
    """Of each copy to the host that is waited for by a call that certainly waits for it."""
    copies = timeline.rows("device_events", "device", "start_ns", "correlation", "pageable", kinds=["d2h"])
    copies = copies.filter(pl.col("device") == device).join(launching_calls(timeline), on="correlation", how="inner")
    if copies.is_empty():
        return NONE
    calls = calls_of_runtime(timeline)
    copies = _with_following(copies, calls)
    by_name = calls.filter(matches(calls["name"], COPIES_AND_WAITS))["correlation"].drop_nulls()
    waits_itself = pl.col("correlation").is_in(by_name.implode())
    certain = pl.col("pageable").fill_null(value=False) | _in_one_operator(timeline, copies)
    returned = pl.when(waits_itself).then("launch_end_ns").when(pl.col("waits") & certain).then("next_end_ns")
    return copies.select(pl.col("start_ns") - returned).to_series().drop_nulls().to_numpy()


def _with_following(copies: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The copies with `next_end_ns` of the call that their thread makes after the one that copies, and whether that `waits`."""
    calls = calls.filter(~matches(calls["name"], ASKS))
    calls = calls.select(
        pl.col("thread").alias("launch_thread"),
        pl.col("start_ns").alias("launch_start_ns"),
        pl.col("end_ns").alias("next_end_ns"),
        matches(calls["name"], STREAM_OR_DEVICE).alias("waits"),
    )
    asked, found = copies.sort("launch_end_ns"), calls.sort("launch_start_ns")
    return asked.join_asof(
        found,
        left_on="launch_end_ns",
        right_on="launch_start_ns",
        by="launch_thread",
        strategy="forward",
        check_sortedness=False,
    )


def _in_one_operator(timeline: Timeline, copies: pl.DataFrame) -> pl.Series:
    """Whether an operator that copies and waits is around the call that copies each, and around the one after it."""
    host = timeline.rows("host_events", "thread", "start_ns", "end_ns", "name", kinds=["operator"])
    host = host.filter(matches(host["name"], events(Event.COPY_AND_WAIT))).sort("start_ns")
    host = host.select(pl.col("thread").alias("launch_thread"), pl.col("start_ns").alias("opened_ns"), pl.col("end_ns").alias("closed_ns"))
    around = copies.with_row_index("row").sort("launch_start_ns")
    around = around.join_asof(
        host, left_on="launch_start_ns", right_on="opened_ns", by="launch_thread", strategy="backward", check_sortedness=False
    )
    return around.sort("row").select((pl.col("next_end_ns") <= pl.col("closed_ns")).fill_null(value=False)).to_series()
