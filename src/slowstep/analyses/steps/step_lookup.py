"""Which step of the window each instant lies in, and what of the trace lies inside.

The device may run behind the host, so that a step has an interval on each: `start_ns` and `end_ns` are the device's, `host_start_ns` and
`host_end_ns`, where the table has them, the host's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.enclosing import pieces_of
from slowstep.timeline.intervals import Ints

TOGETHER: Final = 1 << 17
IN_STEP = pl.col("step") >= 0


def steps_at(steps: pl.DataFrame, times_ns: pl.Series, *, host: bool = False) -> pl.Series:
    """Position of the step that each instant, shape (n,), lies in; -1 where it lies in none or is null.

    `steps`: the table STEPS. `host`: the instants are of host events, else of the device's.
    """
    prefix = "host_" if host and "host_start_ns" in steps.columns else ""
    ordered = steps.sort(f"{prefix}start_ns")
    starts, ends = ordered[f"{prefix}start_ns"].to_numpy(), ordered[f"{prefix}end_ns"].to_numpy()
    times: Ints = times_ns.fill_null(np.iinfo(np.int64).min).to_numpy()
    number, end = np.append(ordered["step"].to_numpy(), -1), np.append(ends, np.iinfo(np.int64).min)
    step = np.empty(len(times), dtype=np.int32)
    for rows in pieces_of(len(times)):
        found = np.searchsorted(starts, times[rows], side="right") - 1
        step[rows] = np.where(times[rows] < end[found], number[found], -1)
    return pl.Series("step", step)


def first_of_runs(at: Ints) -> Ints:
    """Of the steps `at`, in order, those without one right before: what begins in a step's end may go on in the next one."""
    return np.asarray(at[np.append(True, np.diff(at) > 1)])


def slices(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows in slices, at least one: what is grouped of all of them at once takes as much again. What is summed can be summed up."""
    yield from rows.iter_slices(TOGETHER) if rows.height else [rows]


def in_window(rows: pl.DataFrame, steps: pl.DataFrame, time: str = "start_ns", *, host: bool = False) -> pl.DataFrame:
    """The rows that begin inside the window, with the column `step`."""
    rows = rows.with_columns(steps_at(steps, rows[time], host=host))
    # Where all of them do, as in a window that is the whole trace, nothing is copied.
    return rows if bool((rows["step"] >= 0).all()) else rows.filter(IN_STEP)
