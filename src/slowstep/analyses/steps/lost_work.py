"""Which steps launched work of which the trace shows no record: the profiler dropped it, or the file ends before it.

A step that launches nothing, as one that only logs, lacks nothing: each is held against its own launches and its own operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import (
    BEGINS_CAPTURE,
    CALL_KINDS,
    ENDS_CAPTURE,
    LAUNCHES_GRAPH,
    LAUNCHES_KERNEL,
    LAUNCHES_WORK,
    RUNS_ON_HOST,
)
from slowstep.analyses.steps.step_lookup import in_window, slices
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# What a trace does not show must be less than what a verdict is about: 10 %.
WHOLE_FROM: Final = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchCounts:
    """What some steps launched, arrays of shape (steps,): launches, and those of them whose kernels the trace shows.

    `silent` are the steps whose operators launch nothing here, or little, and do so in another step: their launches are lost too.
    """

    launches: Ints
    shown: Ints
    silent: NDArray[np.bool_]

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """The steps that lack kernels of their own launches."""
        return np.asarray(self.shown < WHOLE_FROM * self.launches)


def find_launched(timeline: Timeline, marks: pl.DataFrame, *, at_least: float = WHOLE_FROM) -> LaunchCounts:
    """What each marked step (columns `start_ns` and `end_ns`, one row a step) launched. `at_least` is the part of what its operators
    launch elsewhere with which a step is not silent: where records may be lost anywhere, all of it.
    """
    steps = marks.select("start_ns", "end_ns", pl.int_range(pl.len(), dtype=pl.Int32).alias("step"))
    calls = timeline.rows("host_events", "start_ns", "name", "correlation", "external", kinds=CALL_KINDS)
    launches = in_window(_launches(calls), steps)
    kernels = timeline.rows("device_events", "correlation").drop_nulls().unique()
    working = calls.filter(matches(calls["name"], LAUNCHES_WORK) & (calls["external"] > 0))
    operators = in_window(working, steps).select("step", "external").unique()
    return LaunchCounts(
        launches=_counted(launches, len(marks)),
        shown=_counted(launches.join(kernels, on="correlation", how="semi"), len(marks)),
        silent=_silent(timeline, steps, _counted(operators, len(marks)), at_least),
    )


def _launches(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls that launch a kernel or a graph, once each. While a graph is captured launches run nothing."""
    begins, ends = (calls.filter(matches(calls["name"], pattern))["start_ns"].sort() for pattern in (BEGINS_CAPTURE, ENDS_CAPTURE))
    launches = matches(calls["name"], f"{LAUNCHES_KERNEL}|{LAUNCHES_GRAPH}") & ~matches(calls["name"], RUNS_ON_HOST)
    found = calls.filter(launches & calls["correlation"].is_not_null()).unique("correlation", keep="first", maintain_order=True)
    if begins.is_empty():
        return found
    captured = begins.search_sorted(found["start_ns"]) > ends.search_sorted(found["start_ns"])
    return found.filter(~captured)


def _silent(timeline: Timeline, steps: pl.DataFrame, launching: Ints, at_least: float) -> NDArray[np.bool_]:
    """The same operators launch the same work: a step has as many that launch as the step of most, but for operators that it lacks."""
    most = launching.max(initial=0)
    if (launching >= at_least * most).all():
        return np.zeros(len(launching), dtype=bool)
    counts = _operators(timeline, steps)
    usual = counts.filter(pl.col("step") == int(launching.argmax())).select("name", usual="count")
    each = usual.join(steps.select("step"), how="cross").join(counts, on=["step", "name"], how="left")
    lacks = each.with_columns(lacks=(pl.col("usual") - pl.col("count").fill_null(0)).clip(lower_bound=0))
    lacking = lacks.group_by("step").agg(pl.col("lacks").sum()).sort("step")["lacks"].to_numpy()
    # An operator that a step lacks may be one that launches.
    return np.asarray(launching < at_least * (most - lacking)) if len(lacking) else np.zeros(len(launching), dtype=bool)


def _operators(timeline: Timeline, steps: pl.DataFrame) -> pl.DataFrame:
    """How often each step has an operator of each name: `step`, `name`, `count`."""
    rows = timeline.rows("host_events", "start_ns", "name", kinds=["operator"])
    parts = [in_window(part, steps).group_by("step", "name").agg(pl.len().cast(pl.Int64).alias("count")) for part in slices(rows)]
    return pl.concat(parts).group_by("step", "name").agg(pl.col("count").sum())


def _counted(rows: pl.DataFrame, steps: int) -> Ints:
    return np.bincount(rows["step"].to_numpy(), minlength=steps).astype(np.int64)
