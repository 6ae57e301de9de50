"""What steps are replayed from: calls of the runtime that launch or wait, and what ran on the device, of one rank's whole trace.

A call and what it launched are led together by their correlation. Only threads of the process that marks the steps count, and of devices
only what those threads launched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.events.runtime_calls import ALLOCATES, WAITS, calls_of_runtime, outer_calls
from slowstep.analyses.replay.unjudged import NOTHING_LAUNCHED
from slowstep.reasons import Reason
from slowstep.timeline.intervals import Flags, Ints, RowNumbers
from slowstep.timeline.timeline import Timeline

# What a call waits for, by its name; 0 is nothing. NVIDIA's reference of the runtime ("API synchronization behavior") and AMD's of HIP say
# the same of their calls: a free waits for the device; a copy may wait for itself; an allocation may wait for the device.
# MAYBE is no call: host time that may be a wait for the device (`replay_hidden_waits`).
NOTHING, STREAM, EVENT, DEVICE, OWN_COPY, MAYBE = range(6)
STREAM_CALLS: Final = r"^(cuda|hip|cu)StreamSynchronize"
EVENT_CALLS: Final = r"^(cuda|hip|cu)EventSynchronize"
COPIES: Final = r"^(cuda|hip|cu)Memcpy"
STREAM_WAITS: Final = r"^(cuda|hip|cu)StreamWaitEvent"


@dataclass(frozen=True, slots=True)
class RuntimeCalls:
    """Calls of the runtime or driver that launch, wait or order streams, in order of their start. Arrays of shape (calls,)."""

    thread: RowNumbers
    start: Ints
    end: Ints
    waits_for: NDArray[np.int8]
    orders_streams: Flags  # cudaStreamWaitEvent and its like
    allocates: Flags
    launches: Flags


@dataclass(frozen=True, slots=True)
class ReplayedWork:
    """What ran on the device, in order of its start. Arrays of shape (events,).

    `row` is the row in `device_events`, `call` the index of the launching call in `Calls`, -1 where the trace does not have it; `stream`
    numbers streams of all devices from 0.
    """

    row: RowNumbers
    stream: RowNumbers
    device: RowNumbers
    start: Ints
    end: Ints
    call: RowNumbers
    launched: Ints  # when its call began; where that is unknown, the latest that the order of its stream allows


@dataclass(frozen=True, slots=True)
class Material:
    """One rank's trace, made ready for replaying its steps."""

    calls: RuntimeCalls
    work: ReplayedWork
    streams: int
    main: int  # the thread that marks the steps, or launches most
    turns: frozenset[int]  # threads that take turns with it, itself included: autograd's backward


# A thread takes turns with the main one where their calls come in few, long runs: forward, backward, optimizer, for each micro-batch.
# Threads that work at the same time alternate at about every call of the rarer one.
TURNS_AT_MOST = 0.1
TURNS_ALWAYS = 4


def find_material(timeline: Timeline, steps: pl.DataFrame) -> Material | Reason:
    """What steps are replayed from, or why that cannot be."""
    host = calls_of_runtime(timeline)
    device = timeline.rows("device_events", "device", "stream", "start_ns", "end_ns", "correlation").with_row_index("row")
    main = steps["thread"].drop_nulls()
    main_thread = int(main.mode().sort()[0]) if len(main) else None
    own = _own_threads(timeline, main_thread)
    frame = _calls(host.filter(pl.col("thread").is_in(own)) if own is not None else host, device)
    del host
    if main_thread is None:
        launching = frame.filter(pl.col("launches"))
        if launching.is_empty():
            return NOTHING_LAUNCHED()
        main_thread = int(launching["thread"].mode().sort()[0])
    calls = RuntimeCalls(
        thread=frame["thread"].to_numpy(),
        start=frame["start_ns"].to_numpy(),
        end=frame["end_ns"].to_numpy(),
        waits_for=frame["waits_for"].to_numpy(),
        orders_streams=frame["orders_streams"].to_numpy(),
        allocates=frame["allocates"].to_numpy(),
        launches=frame["launches"].to_numpy(),
    )
    work, streams = _work(frame, device)
    return Material(calls, work, streams, main_thread, _takes_turns(calls, main_thread))


def _own_threads(timeline: Timeline, main: int | None) -> list[int] | None:
    """Threads of the main thread's process; None where the trace does not tell processes apart."""
    threads = timeline.table("trace_threads")
    pid = threads.filter(pl.col("thread") == main)["pid"] if main is not None else pl.Series([], dtype=pl.Int64)
    if not len(pid) or pid[0] is None:
        return None
    return threads.filter(pl.col("pid") == pid[0])["thread"].to_list()


def _calls(host: pl.DataFrame, device: pl.DataFrame) -> pl.DataFrame:
    names = host.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
    text = pl.col("text")
    waits = (
        pl.when(text.str.contains(STREAM_CALLS))
        .then(STREAM)
        .when(text.str.contains(EVENT_CALLS))
        .then(EVENT)
        .when(text.str.contains(f"{WAITS}|{ALLOCATES}"))
        .then(DEVICE)
        .when(text.str.contains(COPIES))
        .then(OWN_COPY)
        .otherwise(NOTHING)
    )
    names = names.select(
        "name",
        waits.cast(pl.Int8).alias("waits_for"),
        text.str.contains(STREAM_WAITS).alias("orders_streams"),
        text.str.contains(ALLOCATES).alias("allocates"),
    )
    launched = device.select("correlation").drop_nulls().unique().with_columns(pl.lit(True).alias("launches"))
    rows = host.select("thread", "start_ns", "end_ns", "kind", "name", "correlation").join(names, on="name", how="left")
    rows = rows.join(launched, on="correlation", how="left").with_columns(pl.col("launches").fill_null(False))
    rows = rows.filter(pl.col("launches") | (pl.col("waits_for") > 0) | pl.col("orders_streams"))
    known = outer_calls(rows.filter(pl.col("correlation").is_not_null()), "correlation")
    rows = pl.concat([known, rows.filter(pl.col("correlation").is_null())]).sort("start_ns", "end_ns", maintain_order=True)
    return rows.with_row_index("call")


def _work(calls: pl.DataFrame, device: pl.DataFrame) -> tuple[ReplayedWork, int]:
    launching = calls.filter(pl.col("launches")).select("correlation", "call", launched="start_ns")
    rows = device.select("row", "device", "stream", "start_ns", "end_ns", "correlation")
    rows = rows.join(launching, on="correlation", how="left").sort("start_ns", "end_ns", maintain_order=True)
    ours = rows.filter(pl.col("call").is_not_null())["device"].unique()
    rows = rows.filter(pl.col("device").is_in(ours.implode()))
    numbers = rows.select("device", "stream").unique().sort("device", "stream").with_row_index("number")
    rows = rows.join(numbers, on=["device", "stream"], how="left", maintain_order="left")
    launched = rows.select(_launched().over("number").alias("launched"))["launched"]
    work = ReplayedWork(
        row=rows["row"].cast(pl.Int32).to_numpy(),
        stream=rows["number"].cast(pl.Int32).to_numpy(),
        device=rows["device"].to_numpy(),
        start=rows["start_ns"].to_numpy(),
        end=np.maximum(rows["end_ns"].to_numpy(), rows["start_ns"].to_numpy()),
        call=rows["call"].cast(pl.Int32).fill_null(-1).to_numpy(),
        launched=launched.to_numpy(),
    )
    return work, numbers.height


def _launched() -> pl.Expr:
    """When each event of a stream was launched. Streams keep the order: what has no call was launched before what follows it, and before
    the trace began where everything before it has none either; of a stream without any call nothing is known but when it worked."""
    call = pl.col("launched")
    following = call.fill_null(strategy="backward").fill_null(pl.col("start_ns"))
    older = pl.when(call.is_not_null().any() & call.fill_null(strategy="forward").is_null()).then(-(2**62)).otherwise(following)
    return pl.min_horizontal(call.fill_null(older), pl.col("start_ns"))


def _takes_turns(calls: RuntimeCalls, main: int) -> frozenset[int]:
    """Threads whose calls come in turns with the main thread's: one logical thread, handed on from one to the other and back."""
    own = calls.launches | (calls.waits_for > NOTHING)
    turns = {main}
    for thread in np.unique(calls.thread[own]).tolist():
        both = calls.thread[own & np.isin(calls.thread, [main, thread])]
        rarer = min(int((both == thread).sum()), int((both == main).sum()))
        switches = int(np.count_nonzero(np.diff(both)))
        if thread != main and switches <= max(TURNS_ALWAYS, TURNS_AT_MOST * rarer):
            turns.add(thread)
    return frozenset(turns)
