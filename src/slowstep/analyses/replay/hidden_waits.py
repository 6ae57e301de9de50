"""Waits for the device that no call of the runtime in the trace tells of: of calls that were not recorded, or of ones that have none.

A host thread that makes no call for a millisecond or more (less is part of launching) either works on its own or waits. It is taken to have
waited for the device where it goes on just after a stream has done all that was launched on it: another call follows, or something ends
that had been open for so long, as the `aten::item` around the wait. By chance that happens too, in one of twenty such stretches; so it
counts only where most of those in which a stream ran dry look like that, and more than one. The others may be waits, with work of the
host's after them: they are taken for work, and a gain that hangs on it is not judged. Named input waits, callbacks and writes, operators of
the host, compiling and allocating are no waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.device.clocks import CLOCKS_NS
from slowstep.analyses.ledger.own_work import LONG_NS, own_work
from slowstep.analyses.replay.graph import RETURN_NS
from slowstep.analyses.replay.graph_waits import LONG_CALL_NS, LaunchOrder
from slowstep.analyses.replay.replayed_work import EVENT, MAYBE, Material, RuntimeCalls
from slowstep.analyses.replay.scene import Intervals
from slowstep.timeline.intervals import Ints, RowNumbers
from slowstep.timeline.timeline import Timeline

# Of so many stretches most must end right after the device: each does by chance in one of twenty (LONG_CALL_NS of LONG_NS) at the most.
AT_LEAST: Final = 2
MOST: Final = 0.5


@dataclass(frozen=True, slots=True)
class _SilentStretches:
    """Stretches of the main logical thread's time, shape (n,): those in which it makes no call, from one to the next, which is made by
    `thread`; or events that last LONG_NS and more, by their ends.
    """

    start: Ints
    end: Ints
    thread: RowNumbers


@dataclass(frozen=True, slots=True)
class _Wait:
    start_ns: int
    end_ns: int
    thread: int
    sure: bool


def with_hidden_waits(timeline: Timeline, material: Material, ranges: pl.DataFrame, until_ns: int) -> Material:
    """The material with a waiting call for each hidden or possible wait up to an instant. `ranges`: named ones of these threads that tell a
    stage.
    """
    events = timeline.rows("host_events", "thread", "start_ns", "end_ns").filter(
        (pl.col("end_ns") - pl.col("start_ns") >= LONG_NS) & pl.col("thread").is_in(list(material.turns))
    )
    named = own_work(timeline).filter(pl.col("thread").is_in(list(material.turns)))
    own = Intervals.union(pl.concat([rows.select("start_ns", "end_ns") for rows in (ranges, named)]))
    ended = events.sort("end_ns")
    spans = _SilentStretches(ended["start_ns"].to_numpy(), ended["end_ns"].to_numpy(), ended["thread"].to_numpy())
    launched, waits = LaunchOrder(material), list[_Wait]()
    for start, end, thread in _each(_stretches(material, until_ns)):
        ends = _run_dry(material, launched, start, end, own)
        seen = [one for at in ends if (one := _goes_on(start, at, end, thread, spans)) is not None]
        waits += seen[-1:] or [_Wait(start, min(at + round(RETURN_NS), end), thread, sure=False) for at in ends[-1:]]
    sure = sum(wait.sure for wait in waits)
    if sure < max(AT_LEAST, MOST * len(waits)):
        waits = [replace(wait, sure=False) for wait in waits]
    return _with_calls(material, waits) if waits else material


def _run_dry(material: Material, launched: LaunchOrder, start_ns: int, end_ns: int, own: Intervals) -> list[int]:
    """When streams had done all that was launched before a stretch, after LONG_NS of it and more that are not the host's own; in order."""
    last = (launched.last(stream, start_ns) for stream in range(material.streams))
    ends = sorted(int(material.work.end[n]) for n in last if n >= 0)
    ends = [at for at in ends if start_ns + LONG_NS <= at <= end_ns + CLOCKS_NS]
    covered = own.covered(np.array([start_ns, *ends]))
    return [at for at, inside in zip(ends, covered[1:] - covered[0], strict=True) if at - start_ns - inside >= LONG_NS]


def _stretches(material: Material, until_ns: int) -> _SilentStretches:
    calls = material.calls
    own = np.isin(calls.thread, list(material.turns)) & (calls.start < until_ns)
    if not own.any():
        nothing = np.zeros(0, dtype=np.int64)
        return _SilentStretches(nothing, nothing, calls.thread[:0])
    start = np.maximum.accumulate(calls.end[own])
    end, thread = np.append(calls.start[own][1:], until_ns), calls.thread[own]
    long = end - start >= LONG_NS
    return _SilentStretches(start[long], end[long], np.append(thread[1:], thread[-1])[long])


def _each(stretches: _SilentStretches) -> Iterator[tuple[int, int, int]]:
    yield from zip(stretches.start.tolist(), stretches.end.tolist(), stretches.thread.tolist(), strict=True)


def _goes_on(start_ns: int, dry_ns: int, until_ns: int, thread: int, spans: _SilentStretches) -> _Wait | None:
    """The wait since `start_ns`, where the host goes on right after a stream ran dry; None where it does not."""
    near = slice(*np.searchsorted(spans.end, [dry_ns - CLOCKS_NS, min(dry_ns + LONG_CALL_NS, until_ns) + 1]))
    open_long = np.flatnonzero(spans.start[near] <= dry_ns - LONG_NS)
    if len(open_long):
        first = near.start + int(open_long[0])
        seen_ns, thread = int(spans.end[first]), int(spans.thread[first])
    elif until_ns <= dry_ns + LONG_CALL_NS:
        seen_ns = until_ns
    else:
        return None
    # What a return takes belongs to the wait, what is more to whatever comes after.
    return _Wait(start_ns, min(seen_ns, dry_ns + round(RETURN_NS)), thread, sure=True)


def _with_calls(material: Material, waits: list[_Wait]) -> Material:
    """The material with calls that wait for what ended last before they return."""
    calls, work = material.calls, material.work
    # In order after the call before them, which ends where they begin.
    start = np.array([wait.start_ns for wait in waits]) + 1
    at = np.searchsorted(calls.start, start, side="right")
    nothing = np.zeros(len(waits), dtype=np.bool_)
    inserted = RuntimeCalls(
        thread=np.insert(calls.thread, at, [wait.thread for wait in waits]),
        start=np.insert(calls.start, at, start),
        end=np.insert(calls.end, at, [wait.end_ns for wait in waits]),
        waits_for=np.insert(calls.waits_for, at, [EVENT if wait.sure else MAYBE for wait in waits]),
        orders_streams=np.insert(calls.orders_streams, at, nothing),
        allocates=np.insert(calls.allocates, at, nothing),
        launches=np.insert(calls.launches, at, nothing),
    )
    # A call moves on by the number of those that were put in before it.
    moved = work.call + np.searchsorted(at, work.call, side="right").astype(work.call.dtype)
    return replace(material, calls=inserted, work=replace(work, call=np.where(work.call >= 0, moved, work.call)))
