"""What a host thread did for most of an interval."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.names import as_text
from slowstep.timeline.intervals import Ints, flattened, pieces

# Stretches that are looked at together: as many as a steady amount of memory allows, whatever the length of the trace.
TOGETHER: Final = 1 << 16


def held_longest(host: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.Series, Ints]:
    """Of each stretch the call or range that held longest in it (null: an operator, or nothing), and an instant at which it did.

    `rows`: `thread` (-1: none), `start_ns`, `end_ns`, `launched_ns`, in order of time. What follows the launch was delayed by no host:
    such a stretch has no call, and its instant is that of the launch.
    """
    calls, instants = [], []
    for first in range(0, len(rows), TOGETHER):
        call, at = _held(host, rows[first : first + TOGETHER])
        calls.append(call)
        instants.append(at)
    if not calls:
        return pl.Series("call", [], dtype=pl.String), np.zeros(0, dtype=np.int64)
    return pl.concat(calls), np.concatenate(instants)


def _held(host: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.Series, Ints]:
    calls = pl.Series("call", [None] * len(rows), dtype=pl.String)
    at, launched = rows["start_ns"].to_numpy().copy(), rows["launched_ns"].to_numpy()
    until = np.minimum(rows["end_ns"].to_numpy(), launched)
    late = until <= at
    at[late] = launched[late] - 1
    for thread in rows["thread"].unique().to_list():
        mine = np.flatnonzero(~late & (rows["thread"] == thread).to_numpy())
        if len(mine):
            near = (pl.col("start_ns") < until[mine[-1]]) & (pl.col("end_ns") > at[mine[0]])
            wanted = (pl.col("thread") == thread) & (pl.col("kind") != "python") & near
            events = host.select(pl.arg_where(wanted)).to_series().to_numpy()
            begin_ns, end_ns = host["start_ns"].to_numpy()[events], host["end_ns"].to_numpy()[events]
            row, instant, event = _longest(begin_ns, end_ns, at[mine], until[mine])
            at[mine[row]] = instant
            event = np.where(event >= 0, np.append(events, 0)[event].astype(np.int64), -1)
            found = host.select(pl.col("kind", "name").gather(pl.Series(event).set(pl.Series(event < 0), None)))
            names = found.with_columns(as_text(found["name"])).select(pl.when(pl.col("kind") != "operator").then("name"))["name"]
            calls = calls.scatter(mine[row], names)
    return calls, at


def _longest(begin_ns: Ints, end_ns: Ints, starts_ns: Ints, ends_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Of each interval its index, the middle of its longest piece in which one event was the innermost, and that event (-1: none).

    `begin_ns`, `end_ns`: the events; `starts_ns`, `ends_ns`: the intervals, in order of time.
    """
    index = np.flatnonzero(_meets(begin_ns, end_ns, starts_ns, ends_ns))
    begin, finish, owner = flattened(begin_ns[index], end_ns[index])
    of, first, last = pieces(starts_ns, ends_ns, np.concatenate((begin, finish)))
    longest = _first_longest(of, last - first)
    row, first, last = of[longest], first[longest], last[longest]
    held = np.searchsorted(begin, first, side="right") - 1
    inside = (held >= 0) & (first < np.append(finish, 0)[held])
    event = np.where(inside, np.append(index[owner], -1)[held], -1)
    return row, first + (last - first) // 2, event


def _first_longest(of: Ints, length_ns: Ints) -> Ints:
    """The first of the longest pieces of each interval; of one interval pieces stand together, and there is one at least."""
    begins = np.append(True, of[1:] != of[:-1])
    most = np.maximum.reduceat(length_ns, np.flatnonzero(begins))
    longest = np.flatnonzero(length_ns == most[np.cumsum(begins) - 1])
    return np.asarray(longest[np.append(True, of[longest[1:]] != of[longest[:-1]])])


def _meets(begin_ns: Ints, end_ns: Ints, starts_ns: Ints, ends_ns: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each event shares time with one of the intervals, which are in order and do not overlap."""
    after = np.searchsorted(ends_ns, begin_ns, side="right")
    return np.asarray(np.append(starts_ns, np.iinfo(np.int64).max)[after] < end_ns)
