"""The rows of the table `gaps`: causes by name, with the host call, operator and source line that held meanwhile."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.trace import parts
from slowstep.analyses.trace.callers import Callers
from slowstep.analyses.trace.host_lane import Lanes
from slowstep.analyses.trace.idle import CALLS, LAUNCH, NO_LAUNCH
from slowstep.analyses.trace.tables import GAPS
from slowstep.stages import UNATTRIBUTED
from slowstep.timeline.intervals import Ints, flattened, pieces
from slowstep.timeline.timeline import Timeline


def gap_rows(timeline: Timeline, stretches: pl.DataFrame, steps: pl.DataFrame, lanes: Lanes, callers: Callers) -> pl.DataFrame:
    """The stretches of `idle.explain` cut to the window's steps, with names: table `gaps`."""
    rows = _in_steps(stretches, steps)
    causes = rows["cause"].to_numpy()
    named, waiting = (causes >= 0) & (causes < CALLS), causes >= CALLS
    thread = rows["thread"].to_numpy()
    call, at = _longest(timeline.table("host_events"), rows)
    ranges = lanes.ranges.select("stage", "part", "name").cast(pl.String)
    calls = _waiting_calls(lanes, callers, np.unique(causes[waiting]) - CALLS)
    number = np.where(waiting, np.searchsorted(calls["row"].to_numpy(), causes - CALLS), -1)
    around = callers.around(pl.Series(thread), pl.Series(at))
    rows = rows.with_columns(
        stage=_chosen([(named, _taken(ranges["stage"], np.where(named, causes, -1)))], _otherwise(causes, "compute", UNATTRIBUTED, "d2h")),
        part=_chosen(
            [(named, _taken(ranges["part"], np.where(named, causes, -1))), (waiting, _taken(calls["part"], number))],
            _otherwise(causes, parts.LAUNCH, parts.UNNAMED, ""),
        ),
        call=_chosen([(named, _taken(ranges["name"], np.where(named, causes, -1))), (waiting, _taken(calls["name"], number))], call),
        operator=_chosen([(waiting, _taken(calls["operator"], number))], around["operator"]),
        where=_chosen([(waiting, _taken(calls["where"], number))], around["where"]),
        between_steps=_between(rows, steps),
        thread=pl.when(pl.col("thread") >= 0).then(pl.col("thread")),
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


def _longest(host: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.Series, Ints]:
    """Of each stretch the name of the call or range that held longest in it (null: an operator, or nothing), and an instant of that."""
    calls = pl.Series("call", [None] * len(rows), dtype=pl.String)
    at = rows["start_ns"].to_numpy().copy()
    for thread in rows["thread"].unique().to_list():
        mine = np.flatnonzero((rows["thread"] == thread).to_numpy())
        starts = rows["start_ns"].to_numpy()[mine]
        ends = np.minimum(rows["end_ns"].to_numpy(), rows["launched_ns"].to_numpy())[mine]
        # What follows the launch was delayed by no host: the launch itself tells whose it is.
        late = ends <= starts
        at[mine[late]] = rows["launched_ns"].to_numpy()[mine[late]] - 1
        mine, starts, ends = mine[~late], starts[~late], ends[~late]
        events = host.filter((pl.col("thread") == thread) & (pl.col("kind") != "python"))
        events = events.filter(pl.Series(_meets(events, starts, ends), dtype=pl.Boolean))
        begin, finish, owner = flattened(events["start_ns"].to_numpy(), events["end_ns"].to_numpy())
        of, first, last = pieces(starts, ends, np.concatenate((begin, finish)))
        one = _longest_of(of, first, last)
        at[mine[of[one]]] = first[one] + (last[one] - first[one]) // 2
        held = np.searchsorted(begin, first[one], side="right") - 1
        inside = (held >= 0) & (first[one] < np.append(finish, 0)[held])
        which = pl.Series(np.where(inside, np.append(owner, 0)[held], -1))
        picked = events.with_row_index("event").with_columns(pl.col("event").cast(pl.Int64))
        picked = which.to_frame("event").join(picked, on="event", how="left", maintain_order="left")
        name = pl.when(pl.col("kind") != "operator").then(pl.col("name").cast(pl.String))
        calls = calls.scatter(mine[of[one]], picked.select(name)["name"])
    return calls, at


def _longest_of(of: Ints, first: Ints, last: Ints) -> Ints:
    """The index of the longest piece of each interval, the first of several; `of` is in order."""
    order = np.lexsort((first, first - last, of))
    return order[np.append(True, np.diff(of[order]) > 0)] if len(order) else order


def _meets(events: pl.DataFrame, starts_ns: Ints, ends_ns: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each event shares time with one of the intervals, which are in order and do not overlap."""
    begin, end = events["start_ns"].to_numpy(), events["end_ns"].to_numpy()
    after = np.searchsorted(ends_ns, begin, side="right")
    return np.asarray(np.append(starts_ns, np.iinfo(np.int64).max)[after] < end)


def _waiting_calls(lanes: Lanes, callers: Callers, rows: Ints) -> pl.DataFrame:
    """The waiting calls of these rows with `part`, `operator` and `where`."""
    calls = lanes.calls.rows[rows].select("thread", "start_ns", pl.col("name").cast(pl.String))
    around = callers.around(calls["thread"], calls["start_ns"])
    named = pl.concat([calls, around.select("operator", "where")], how="horizontal").with_columns(pl.Series("row", rows))
    place = pl.when(pl.col("where").is_not_null()).then(" (" + pl.col("where") + ")").otherwise(pl.lit(""))
    return named.with_columns((pl.lit(parts.RUN_DRY) + pl.col("name") + place).alias("part"))


def _otherwise(causes: Ints, launch: str, unnamed: str, waiting: str) -> pl.Series:
    no_launch = parts.NO_LAUNCH if unnamed == parts.UNNAMED else unnamed
    names = np.select([causes >= CALLS, causes == LAUNCH, causes == NO_LAUNCH], [0, 1, 2], default=3)
    return pl.Series([waiting, launch, no_launch, unnamed], dtype=pl.String).gather(pl.Series(names))


def _chosen(choices: list[tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], pl.Series]], otherwise: pl.Series) -> pl.Series:
    for condition, values in choices:
        otherwise = values.zip_with(pl.Series(condition, dtype=pl.Boolean), otherwise)
    return otherwise


def _taken(values: pl.Series, rows: Ints) -> pl.Series:
    at = pl.Series(rows, dtype=pl.Int64)
    at = at.set(at < 0, None)
    return values.gather(at) if len(values) else pl.Series(values.name, [None] * len(rows), dtype=values.dtype)
