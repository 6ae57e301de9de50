"""The columns that several tables of the recorded processes have: whose a row is, and when it was."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.table import column

PROCESS = column("process", pl.Int32, "index of the process in `processes`")
THREAD = column("thread", pl.UInt32, "native thread id")
START = column("start_ns", pl.Int64, "when it began, CLOCK_MONOTONIC")
END = column("end_ns", pl.Int64, "when it ended, CLOCK_MONOTONIC")
TIME = column("time_ns", pl.Int64, "when it was taken, CLOCK_MONOTONIC")
FAILED = column("failed", pl.Boolean, "the call raised")
ITERATOR = column("iterator", pl.Int64, "number of the loader's iterator in its process")
BATCH = column("batch", pl.Int64, "index of the batch in its iterator's order")
SPAN = (PROCESS, THREAD, START, END)
