"""The table `operators`: what each framework operator took on the host and on the device."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.events.enclosing import pieces_of
from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import CALL_KINDS, LAUNCHES_WORK, calls_of_runtime
from slowstep.analyses.events.tables import OPERATORS
from slowstep.analyses.python.callers import NAMED, Callers
from slowstep.analyses.steps.step_lookup import in_window, slices
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.shares import MOSTLY
from slowstep.timeline.intervals import Flags, Ints
from slowstep.timeline.timeline import Timeline

Counts = NDArray[np.int32]


def find_operators(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table OPERATORS of those called inside the window, those with most device time, then most host time of their own, first."""
    rows = in_window(read_operators(timeline, callers or Callers(timeline)), steps, host=True)
    one = pl.lit(1, pl.Int64).alias("count"), pl.col("launches").cast(pl.Int64)
    longest = pl.max_horizontal("device_self_ns", "host_self_ns").alias("longest_ns")
    computing = pl.when(pl.col("on_host")).then(pl.col("host_self_ns")).otherwise(0).alias("computing_ns")
    grouped = _summed(pl.concat([_summed(some.with_columns(*one, computing, longest)) for some in slices(rows)]))
    # An operator of one name and line may run here and there: it is one on the host where most of its own host time is computing. A call
    # whose launch was lost looks as if it had computed on the host.
    is_mostly = pl.col("computing_ns") >= MOSTLY * pl.col("host_self_ns")
    place = pl.when(pl.col("on_host")).then(is_mostly).otherwise(pl.col("on_host")).alias("on_host")
    if "module" not in grouped.columns:
        grouped = grouped.with_columns(pl.lit(None, pl.String).alias("module"))
    grouped = grouped.with_columns(pl.col("name", "shapes", "types", "where", "module").cast(pl.String), place).sort(
        -pl.col("device_self_ns"), -pl.col("host_self_ns"), "name", "shapes", "where"
    )
    return grouped.select(pl.col(column.name).cast(column.type) for column in OPERATORS.columns)


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    # Its longest call stands for all: which of a network's layers it was.
    modules = [pl.col("module").sort_by("longest_ns").last()] if "module" in rows.columns else []
    return rows.group_by("name", "shapes", "where").agg(
        pl.col("types").first(),
        *modules,
        pl.col("longest_ns").max(),
        pl.col("count", "host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns", "launches", "computing_ns").sum(),
        pl.col("on_host").any(ignore_nulls=False),
        pl.col("backward").any(),
    )


def mostly_on_host(operators: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Which `keys` (such as name and source line) of the table OPERATORS stand for operators that mostly compute on the host."""
    own = pl.col("host_self_ns")
    summed = operators.group_by(keys).agg(own.sum().alias("all"), own.filter(pl.col("on_host")).sum().alias("computing"))
    return summed.filter((pl.col("computing") > 0) & (pl.col("computing") >= MOSTLY * pl.col("all"))).select(keys)


def read_operators(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    """One row per call of an operator, with the columns of OPERATORS but `count`, and `start_ns`."""
    spans = callers.spans
    launches = _launches(callers)
    on_host = _on_host(timeline, callers, launches)
    device_self = _device_time(timeline, callers)
    operator = (spans["kind"] == "operator").to_numpy()
    start, total = _host_time(callers, operator)
    modules = callers.modules(np.arange(spans.height, dtype=np.int32))
    found = spans.drop("kind").with_columns(
        *([] if modules is None else [modules]),
        start,
        callers.backward,
        pl.Series("host_total_ns", total),
        pl.Series("host_self_ns", _without_inner(callers, operator, total)),
        pl.Series("device_total_ns", callers.nesting.sums(device_self)),
        pl.Series("device_self_ns", device_self),
        pl.Series("launches", launches),
        on_host,
    )
    return found if bool(operator.all()) else found.filter(pl.Series(operator))


def _host_time(callers: Callers, operator: Flags) -> tuple[pl.Series, Ints]:
    """When each span began, and how long it lasted, 0 for what is no operator."""
    times = callers.times()
    total = (times["end_ns"] - times["start_ns"]).to_numpy()
    return times["start_ns"], total if bool(operator.all()) else np.where(operator, total, 0)


def _without_inner(callers: Callers, operator: Flags, total: Ints) -> Ints:
    """Of the lengths of operators, shape (n,), what lies in no operator that they call."""
    own, parents = total.copy(), callers.nesting.parents
    for rows in pieces_of(len(own)):
        above = callers.innermost_operator(parents[rows])
        inside = operator[rows] & (above >= 0)
        np.subtract.at(own, above[inside], total[rows][inside])
    return np.maximum(own, 0, out=own)


def _launches(callers: Callers) -> Counts:
    """The number of device events that each span launched itself (innermost operators only), shape (n,)."""
    span = callers.innermost_operator(callers.launch_calls["span"].to_numpy())
    return np.bincount(span[span >= 0], minlength=callers.spans.height).astype(np.int32)


def _device_time(timeline: Timeline, callers: Callers) -> Ints:
    """How long these took, shape (n,)."""
    device = timeline.rows("device_events", "start_ns", "end_ns")
    span = callers.innermost_operator(callers.launch_calls["span"].to_numpy())
    known = np.flatnonzero(span >= 0)
    time = np.zeros(callers.spans.height, dtype=np.int64)
    np.add.at(time, span[known], (device["end_ns"] - device["start_ns"]).to_numpy()[known])
    return time


def _calls_that_launch(timeline: Timeline, callers: Callers) -> Counts:
    host = calls_of_runtime(timeline)
    host = host.filter(matches(host["name"], LAUNCHES_WORK))
    span = callers.innermost_operator(callers.indices_around(host["thread"], host["start_ns"]))
    return np.bincount(span[span >= 0], minlength=callers.spans.height).astype(np.int32)


def _on_host(timeline: Timeline, callers: Callers, launches: Counts) -> pl.Series:
    """Whether each span computes on the host. Null where there is no device, or where the calls of the runtime are not in the trace."""
    has_calls = len(timeline.rows("host_events", "kind", kinds=CALL_KINDS)) > 0
    if not timeline.count("device_events") or not has_calls:
        return pl.repeat(None, callers.spans.height, dtype=pl.Boolean, eager=True).alias("on_host")
    calls = callers.nesting.sums(_calls_that_launch(timeline, callers) + launches)
    return (computes(callers.spans["name"]) & pl.Series(calls == 0)).alias("on_host")


def computes(names: pl.Series) -> pl.Series:
    """Whether operators of these names, shape (n,), compute something, by themselves or in operators that they call."""
    return matches(names, NAMED) & ~matches(names, events(Event.NO_OPERATOR)) & ~matches(names, events(Event.COMPUTES_NOTHING))
