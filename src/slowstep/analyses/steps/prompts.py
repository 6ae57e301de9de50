"""Recordings of a notebook or a prompt: between two cells nobody trains, so one cell's training is looked at, never the time between."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.timeline.run_facts import Session

CellRun = tuple[int, int]


def find_run(updates: pl.DataFrame, session: Session | None, thread: int) -> CellRun | None:
    """Begin and end (ns) of the cell or command with most updates; None where no prompt divides them."""
    if session is None or thread != session.thread or not session.prompts_ns:
        return None
    edges = np.array([0, *session.prompts_ns, np.iinfo(np.int64).max])
    cell = np.searchsorted(edges, updates["end_ns"].to_numpy(), side="right") - 1
    # Of two with as many, the later one: its code is what the user looks at.
    counts = np.bincount(cell)
    most = len(counts) - 1 - int(counts[::-1].argmax())
    return int(edges[most]), int(edges[most + 1])


def within(run: CellRun | None, table: pl.DataFrame) -> pl.DataFrame:
    """The spans of a table that lie in a run; all of them where there is none."""
    return table if run is None else table.filter(pl.col("start_ns") >= run[0], pl.col("end_ns") <= run[1])
