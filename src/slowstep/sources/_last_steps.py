"""Of a trace with more events than memory allows only the last steps are kept: nothing starts up in them any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import polars as pl

from slowstep.health import Health, HealthKind
from slowstep.timeline.intervals import Ints
from slowstep.timeline.schema import TABLE
from slowstep.timeline.table import light

# A verdict needs two, and the first one may turn out to be a part of one only.
STEPS_AT_LEAST: Final = 3
# Reading holds a few numbers of every event at a time: what one that is left out takes of one that is kept (41 of 290 bytes, measured of a
# Kineto file of 2.7 million events).
LEFT_OUT_SHARE: Final = 1 / 7
EVENTS: Final = ("host_events", "device_events")
# Tables whose rows have a time, and the column that says until when they matter.
TIMED: Final = {"host_events": "end_ns", "device_events": "end_ns", "marked_steps": "start_ns", "allocations": "time_ns"}
STEPS_LEFT_OUT: Final = HealthKind(
    "steps-left-out-for-memory",
    "notice",
    "the first steps, so that the last ones fit into the memory that is allowed; allow more to see them (--memory)",
)

# Gives a column of a table.
Read = Callable[[str, str], pl.Series]


def first_kept_ns(step_starts_ns: Ints, event_starts_ns: Iterable[Ints], most_events: int) -> int | None:
    """When the first step begins that is kept: what begins from there on, and a part of the rest, is `most_events` events or fewer, or the
    fewest steps that a verdict can be drawn from. None where all fit, or where no more steps are marked.
    """
    steps = np.unique(step_starts_ns)
    if len(steps) <= STEPS_AT_LEAST:
        return None
    begun = np.zeros(len(steps) + 1, dtype=np.int64)
    for starts in event_starts_ns:
        begun += np.bincount(np.searchsorted(steps, starts, side="right"), minlength=len(begun))
    every = int(begun.sum())
    if every <= most_events:
        return None
    kept = np.cumsum(begun[::-1])[::-1][1:]
    held = kept + (every - kept) * LEFT_OUT_SHARE
    first = int(np.searchsorted(-held, -most_events))
    return int(steps[min(first, len(steps) - STEPS_AT_LEAST)])


def last_steps(read: Read, most_events: int) -> tuple[dict[str, pl.DataFrame], int] | None:
    """The timed tables without what ended before the first step that is kept, and how many steps were left out; None where all fit.

    What was open then stays, as the Python functions around all steps. One column is held at a time.
    """
    marks = read("marked_steps", "start_ns").to_numpy()
    cut_ns = first_kept_ns(marks, (read(name, "start_ns").to_numpy() for name in EVENTS), most_events)
    if cut_ns is None:
        return None
    kept = {name: read(name, column) >= cut_ns for name, column in TIMED.items()}
    tables = {name: light(read(name, column).filter(rows) for column in TABLE[name].schema) for name, rows in kept.items()}
    return tables, int((marks < cut_ns).sum())


def of_tables(tables: Mapping[str, pl.DataFrame]) -> Read:
    """Reads tables that are in memory."""
    return lambda name, column: tables[name][column]


def left_out(steps: int) -> Health:
    """What is said of steps that were left out."""
    return STEPS_LEFT_OUT(steps)
