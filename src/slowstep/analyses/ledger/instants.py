"""The ledger of a trace instant by instant: which interval of the window was charged to which stage and part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, numbered, rows_of
from slowstep.analyses.ledger.charge import Charged
from slowstep.analyses.ledger.seen_from_host import works_unseen
from slowstep.analyses.ledger.trace_ledger import busy_stretches, charge_host, charge_unseen, seen_device
from slowstep.analyses.python.callers import Callers
from slowstep.parts import UNKNOWN
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

TIMES = ("start_ns", "end_ns")


def find_stretches(timeline: Timeline, steps: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The window's stretches in order of time: `start_ns`, `end_ns` and the part. None overlaps, and neighbours differ.

    A device's times are its own, whatever its clock.
    """
    if steps.is_empty():
        return gaps.select(*TIMES, *COLUMNS).clear()
    device = seen_device(timeline)
    if device is None and works_unseen(timeline):
        charged, parts_of = charge_unseen(timeline, steps, Callers(timeline))
        return _joined(pl.concat([charged.times, _known_parts(charged, parts_of)], how="horizontal"))
    if device is None:
        charged, parts = charge_host(timeline, steps)
        return _joined(pl.concat([charged.times, parts[charged.code]], how="horizontal"))
    return _joined(pl.concat([busy_stretches(timeline, device, steps), gaps.select(*TIMES, *COLUMNS)]))


def _known_parts(charged: Charged, parts_of: Callable[[Ints], pl.DataFrame]) -> pl.DataFrame:
    """The part of each stretch; `UNKNOWN` where it may be several."""
    codes, at = np.unique(charged.code, return_inverse=True)
    parts, number = numbered(parts_of(codes))
    found = np.full(len(charged.step), len(parts))
    found[charged.stretch] = number[at]
    other = found[charged.stretch] != number[at]
    found[charged.stretch[other]] = len(parts)
    return rows_of((*parts, UNKNOWN))[found]


def _joined(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in order, those that touch and are charged alike made one: edges of other events cut them."""
    rows = rows.sort("start_ns")
    begins = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in COLUMNS)
    apart = begins | (pl.col("start_ns") != pl.col("end_ns").shift(1))
    runs = rows.with_columns(apart.fill_null(value=True).cum_sum().alias("run"))
    joined = runs.group_by("run", maintain_order=True).agg(pl.col("start_ns").first(), pl.col("end_ns").last(), pl.col(COLUMNS).first())
    return joined.select(*TIMES, *COLUMNS)
