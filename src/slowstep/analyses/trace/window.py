"""Which step of the window each instant lies in, and what of the trace lies inside."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.timeline.intervals import Ints

IN_STEP = pl.col("step") >= 0


def steps_at(steps: pl.DataFrame, times_ns: pl.Series) -> pl.Series:
    """Position of the step that each instant, shape (n,), lies in; -1 where it lies in none or is null. `steps`: the table STEPS."""
    ordered = steps.sort("start_ns")
    starts, ends = ordered["start_ns"].to_numpy(), np.append(ordered["end_ns"].to_numpy(), np.iinfo(np.int64).min)
    times: Ints = times_ns.fill_null(np.iinfo(np.int64).min).to_numpy()
    found = np.searchsorted(starts, times, side="right") - 1
    number = np.append(ordered["step"].to_numpy(), -1)
    return pl.Series("step", np.where(times < ends[found], number[found], -1), dtype=pl.Int32)


def in_window(rows: pl.DataFrame, steps: pl.DataFrame, time: str = "start_ns") -> pl.DataFrame:
    """The rows that begin inside the window, with the column `step`."""
    return rows.with_columns(steps_at(steps, rows[time])).filter(IN_STEP)
