"""A recurrent layer that a step calls for one place of its sequences after the other.

Its own loop over a whole sequence does the products of all places at once, and no Python between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import enclosing, is_library, shown
from slowstep.analyses.python.hot_loop import FEWEST_BODIES, untimed_shares
from slowstep.analyses.python.often_lines import OFTEN
from slowstep.analyses.python.timed_callers import TimedCallers
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.record.writing import own_frames
from slowstep.timeline.timeline import Frame, Timeline

RECURRENT, FORWARD = code(Code.RECURRENT), named(Named.FORWARD)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recurrence:
    """The layers of one class that are called so, how often in a step, and by which function of the user's (None: not known).

    `share` is of forward and what else is neither backward nor optimizer.
    """

    layer: str
    calls: float
    caller: str | None
    place: str | None
    share: float


def find_recurrence(timeline: Timeline, process: int, script: str | None) -> Recurrence | None:
    """Those with most time in the timed bodies; None where none is called often."""
    calls, edges = (of_bodies(timeline, table, process) for table in ("calls", "call_edges"))
    calls = calls.filter(pl.col("wall_ns").is_not_null())
    if calls.is_empty() or calls["stretches"][0] < FEWEST_BODIES:
        return None
    bodies = float(calls["stretches"][0])
    layers = (row for row in calls.iter_rows(named=True) if _is_layer(row["file"], row["function"]))
    often = (row for row in layers if (row["calls"] or 0) / bodies >= OFTEN)
    most = max(often, key=lambda row: row["total_ns"], default=None)
    if most is None:
        return None
    caller = _users_caller(most["number"], TimedCallers(calls, edges))
    return Recurrence(
        layer=most["function"].rpartition(".")[0],
        calls=most["calls"] / bodies,
        caller=None if caller is None else enclosing(caller.function),
        place=None if caller is None else f"{shown(caller.file, script)}:{caller.first_line}",
        share=untimed_shares(calls, float(most["total_ns"]), most["total_ns"] / most["calls"], None)[1],
    )


def _is_layer(file: str, function: str) -> bool:
    return bool(RECURRENT.search(file) and FORWARD.search(function))


def _users_caller(number: int, callers: TimedCallers) -> Frame | None:
    """The nearest function of the user's above, always by the caller with most time in it."""
    met = {number}
    while above := [caller for caller in callers.of(number) if caller not in met]:
        number = above[0]
        met.add(number)
        frame = callers.frame(number)
        if frame is None or not (is_library(frame) or own_frames.is_own(frame.file)):
            return frame
    return None
