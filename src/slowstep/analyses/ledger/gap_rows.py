"""The rows of the table `gaps`: causes by name, with the host call, operator and function of the user's that held meanwhile."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.events import parts
from slowstep.analyses.events.held import held_longest
from slowstep.analyses.events.parts import COLUMNS, rows_of
from slowstep.analyses.events.tables import GAPS
from slowstep.analyses.ledger.idle import CALLS, LAUNCH, NO_LAUNCH
from slowstep.analyses.ledger.lanes_beside_device import TraceLanes
from slowstep.analyses.python.callers import Callers
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Ints, pieces
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON

# What holds where no range and no call does.
OTHERWISE = (parts.LAUNCH, parts.NO_LAUNCH, parts.NOTHING_RECORDED)


class Causes:
    """What the codes of `idle.explain` name: a named range, a call after which the device ran dry, or none of these.

    `calls` are the waiting calls among some codes, with `operator` and `where`.
    """

    def __init__(self, lanes: TraceLanes, callers: Callers, codes: Ints) -> None:
        self.ranges = lanes.ranges["range"].cast(pl.String)
        self.calls = _waiting_calls(lanes, callers, np.unique(codes[codes >= CALLS]) - CALLS)
        dry = self.calls.select(pl.lit("d2h").alias("stage"), pl.lit(PartKind.RUN_DRY.value).alias("kind"), "name", place="where")
        self._parts = pl.concat(
            [rows_of(OTHERWISE), *(rows.select(pl.col(name).cast(pl.String) for name in COLUMNS) for rows in (lanes.ranges, dry))]
        )

    def number(self, codes: Ints) -> Ints:
        """The row of `calls` that each code is; -1 for others."""
        return np.where(codes >= CALLS, np.searchsorted(self.calls["row"].to_numpy(), codes - CALLS), -1)

    def parts(self, codes: Ints) -> pl.DataFrame:
        """The part of each code."""
        named, waiting = (codes >= 0) & (codes < CALLS), codes >= CALLS
        choices = [codes + len(OTHERWISE), self.number(codes) + len(OTHERWISE) + len(self.ranges)]
        otherwise = np.select([codes == LAUNCH, codes == NO_LAUNCH], [0, 1], default=2)
        return self._parts[np.select([named, waiting], choices, default=otherwise)]


def gap_rows(timeline: Timeline, stretches: pl.DataFrame, steps: pl.DataFrame, names: Causes, callers: Callers) -> pl.DataFrame:
    """The stretches of `idle.explain` cut to the window's steps, with names: table `gaps`."""
    rows = _in_steps(stretches, steps)
    causes = rows["cause"].to_numpy()
    named, waiting = (causes >= 0) & (causes < CALLS), causes >= CALLS
    thread = rows["thread"].to_numpy()
    call, at = held_longest(timeline.rows("host_events", "thread", "start_ns", "end_ns", "kind", "name", kinds=NOT_PYTHON), rows)
    calls, number = names.calls, names.number(causes)
    around = callers.around(pl.Series(thread), pl.Series(at))
    rows = pl.concat([rows, names.parts(causes)], how="horizontal")
    rows = rows.with_columns(
        call=_chosen([(named, _taken(names.ranges, np.where(named, causes, -1))), (waiting, _taken(calls["name"], number))], call),
        operator=_chosen([(waiting, _taken(calls["operator"], number))], around["operator"]),
        where=_chosen([(waiting, _taken(calls["where"], number))], around["where"]),
        between_steps=_between(rows, steps),
        thread=_chosen(
            [(waiting, _taken(calls["thread"], number))], _taken(pl.Series(thread), np.where(thread >= 0, np.arange(len(thread)), -1))
        ),
    )
    return rows.select(pl.col(column.name).cast(column.type) for column in GAPS.columns).sort("start_ns")


def _in_steps(stretches: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Each stretch cut at the bounds of steps; what lies in none is dropped. The whole gap's bounds are kept with it."""
    whole = pl.col("start_ns").min().over("gap").alias("gap_start_ns"), pl.col("end_ns").max().over("gap").alias("gap_end_ns")
    stretches = stretches.with_columns(*whole)
    start, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    of, begin, finish = pieces(stretches["start_ns"].to_numpy(), stretches["end_ns"].to_numpy(), np.concatenate((start, end)))
    step = np.searchsorted(start, begin, side="right") - 1
    inside = (step >= 0) & (begin < end[step])
    rows = stretches[of[inside]].with_columns(
        pl.Series("start_ns", begin[inside]), pl.Series("end_ns", finish[inside]), pl.Series("step", step[inside])
    )
    # Numbers without holes, counted from the window's begin.
    return rows.with_columns(pl.col("gap").rank("dense").cast(pl.Int32) - 1)


def _between(rows: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    bounds = np.unique(np.concatenate((steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())))
    first = np.searchsorted(bounds, rows["gap_start_ns"].to_numpy(), side="left")
    return pl.Series(first < np.searchsorted(bounds, rows["gap_end_ns"].to_numpy(), side="right"), dtype=pl.Boolean)


def _waiting_calls(lanes: TraceLanes, callers: Callers, rows: Ints) -> pl.DataFrame:
    """The waiting calls of these rows with `operator` and `where`."""
    calls = lanes.calls[rows].select(pl.col("thread").cast(pl.Int64), "start_ns", pl.col("name").cast(pl.String))
    around = callers.around(calls["thread"], calls["start_ns"])
    return pl.concat([calls, around.select("operator", "where")], how="horizontal").with_columns(pl.Series("row", rows))


def _chosen(choices: list[tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], pl.Series]], otherwise: pl.Series) -> pl.Series:
    for condition, values in choices:
        otherwise = values.zip_with(pl.Series(condition, dtype=pl.Boolean), otherwise)
    return otherwise


def _taken(values: pl.Series, rows: Ints) -> pl.Series:
    at = pl.Series(rows, dtype=pl.Int64)
    at = at.set(at < 0, None)
    return values.gather(at) if len(values) else pl.Series(values.name, [None] * len(rows), dtype=values.dtype)
