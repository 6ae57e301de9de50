"""The steps of a trace: marked, inferred from what repeats, or the whole trace as one.

A mark says when the host was in a step. The device trails it: a host that runs ahead ends its steps long before the device does, and the
lengths of its marks say how full the queue is, not how long a step takes. So with a device a step begins when the host has begun it *and*
the device has finished what the steps before launched; it ends where the next begins. Where the device waits for the host that is the
mark's begin; where the host waits for the device it is the device's. `host_start_ns` and `host_end_ns` keep the mark.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.trace.device_work import busiest_device, device_work
from slowstep.analyses.trace.marks import choose_marks
from slowstep.analyses.trace.repetition import infer_marks
from slowstep.analyses.trace.tables import STEPS
from slowstep.analyses.trace.training import is_training
from slowstep.analyses.trace.training_thread import BACKWARD, training_thread
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# A first or last mark with fewer launches (operators, where there is no device) than this part of a usual one was cut off.
CUT_OFF_BELOW: Final = 0.5
# Of a file that was cut off, a step that holds less than this part of the usual one lacks something.
WHOLE_FROM: Final = 0.9


def find_steps(timeline: Timeline) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The window's steps (table `steps`), and notes in words: what was inferred, what was left out. No rows where the trace is empty."""
    device = busiest_device(timeline)
    work = None if device is None else device_work(timeline, device)
    marks, notes = choose_marks(timeline.table("marked_steps"))
    if marks.is_empty():
        # What repeats in an inference may be a layer or a request: nothing tells which of them a step is.
        inferred = infer_marks(timeline) if is_training(timeline) else None
        if inferred is None:
            return _whole(timeline, notes)
        marks = inferred[0].with_columns(pl.lit("inferred").alias("mark"))
        notes += (f"the trace marks no steps: they were inferred from {inferred[1]}",)
    cut_file = timeline.trace is not None and not timeline.trace.complete
    marks, cut = _complete(marks, _amounts(timeline, marks, work), cut_file=cut_file)
    steps = _bounded(marks, work)
    steps, started = _without_start(steps, work)
    return _table(steps), (*notes, *cut, *started)


def _whole(timeline: Timeline, notes: tuple[str, ...]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    events = pl.concat([timeline.rows(name, "start_ns", "end_ns") for name in ("host_events", "device_events")])
    if events.is_empty() or events["end_ns"].max() == events["start_ns"].min():
        return STEPS.empty(), (*notes, "the trace holds no time that could be divided")
    bounds = {"start_ns": [events["start_ns"].min()], "end_ns": [events["end_ns"].max()]}
    row = pl.DataFrame({"number": [0], "mark": ["window"], "thread": [training_thread(timeline)]} | bounds)
    row = row.with_columns(host_start_ns=pl.col("start_ns"), host_end_ns=pl.col("end_ns"))
    return _table(row), (*notes, "the trace marks no steps and none could be inferred: it is taken as one step")


def _amounts(timeline: Timeline, marks: pl.DataFrame, work: pl.DataFrame | None) -> Ints:
    """How much each mark holds: device events launched in it, else operators of the backward, else of any kind."""
    known = None if work is None else work["launch_start_ns"].drop_nulls()
    if known is None or known.is_empty():
        operators = timeline.rows("host_events", "name", "start_ns", kinds=["operator"])
        names = operators.select("name").unique().filter(pl.col("name").cast(pl.String).str.contains(BACKWARD))
        backward = operators.join(names, on="name", how="semi")
        # A step that was cut off may have made its whole batch, of many operators, and nothing of it.
        known = (backward if backward.height else operators)["start_ns"]
    times = np.sort(known.to_numpy())
    starts, ends = marks["start_ns"].to_numpy(), marks["end_ns"].to_numpy()
    return np.asarray(np.searchsorted(times, ends) - np.searchsorted(times, starts))


def _complete(marks: pl.DataFrame, amounts: Ints, *, cut_file: bool) -> tuple[pl.DataFrame, tuple[str, ...]]:
    notes = []
    if cut_file and len(marks) > 1:
        notes.append(f"step {marks['number'][-1]} is left out: the file was cut off")
        marks, amounts = marks.slice(0, len(marks) - 1), amounts[:-1]
        # Events are not written in order of time: any step may lack some. Like ones are whole, and of one alone nobody can tell.
        whole = amounts >= WHOLE_FROM * np.median(amounts)
        notes += [f"step {number} is left out: the file was cut off before all of it" for number in marks["number"].filter(~whole)]
        marks, amounts = marks.filter(whole), amounts[whole]
        if len(marks) == 1:
            notes.append(f"step {marks['number'][0]} is the only one left: it may lack a part too, since the file was cut off")
    first, last = 0, len(marks)
    for at, end in ((last - 1, "last"), (0, "first")):
        others = np.delete(amounts[first:last], at - first)
        if len(others) and amounts[at] < CUT_OFF_BELOW * np.median(others):
            first, last = (first, last - 1) if end == "last" else (first + 1, last)
            notes.append(f"step {marks['number'][at]}, the {end} one, is left out: the profiler recorded only a part of it")
    return marks.slice(first, last - first), tuple(notes)


def _bounded(marks: pl.DataFrame, work: pl.DataFrame | None) -> pl.DataFrame:
    """The steps with their begins and ends on the device's clock; without known launches those of the marks."""
    starts, ends = marks["start_ns"].to_numpy(), marks["end_ns"].to_numpy()
    done = _done(starts, ends, work)
    begins = np.maximum(starts, done[:-1])
    own_ends = np.maximum(ends, done[1:])
    numbers = marks["number"].to_numpy()
    # Numbers that follow each other leave nothing between two steps; else something was not recorded there.
    follows = np.diff(numbers) == 1 if len(numbers) > 1 else np.zeros(0, dtype=bool)
    closes = np.append(np.where(follows, begins[1:], np.minimum(own_ends[:-1], begins[1:])), own_ends[-1:])
    return marks.with_columns(
        pl.Series("host_start_ns", starts), pl.Series("host_end_ns", ends), pl.Series("start_ns", begins), pl.Series("end_ns", closes)
    )


def _done(starts_ns: Ints, ends_ns: Ints, work: pl.DataFrame | None) -> Ints:
    """When the device had finished what was launched before each step's start, and before the last one's end, shape (n + 1,)."""
    never = np.full(len(starts_ns) + 1, np.iinfo(np.int64).min)
    if work is None or not len(starts_ns):
        return never
    known = work.filter(pl.col("launch_start_ns").is_not_null()).sort("launch_start_ns")
    if known.is_empty():
        return never
    edges = np.append(starts_ns, ends_ns[-1])
    launched, ended = known["launch_start_ns"].to_numpy(), np.maximum.accumulate(known["end_ns"].to_numpy())
    before = np.searchsorted(launched, edges)
    done = np.where(before > 0, ended[np.maximum(before - 1, 0)], never)
    done[0] = max(done[0], _left_over(work, int(starts_ns[0]), int(ends_ns[0])))
    return np.asarray(np.maximum.accumulate(done))


def _left_over(work: pl.DataFrame, start_ns: int, end_ns: int) -> int:
    """When the last event ended that runs before the first step's own, and whose launch is older than the trace."""
    launched = pl.col("launch_start_ns")
    own = work.filter(launched.is_between(start_ns, end_ns, closed="left"))["start_ns"].min()
    older = work.filter(launched.is_null() & (pl.col("start_ns") < own)) if isinstance(own, int) else work.clear()
    ended = older["end_ns"].max()
    return ended if isinstance(ended, int) else np.iinfo(np.int64).min


def _without_start(steps: pl.DataFrame, work: pl.DataFrame | None) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Leave out a first step that begins with an empty queue where all others begin with a full one: the profiler's start emptied it."""
    full = (steps["start_ns"] > steps["host_start_ns"]).to_list()
    if work is None or len(full) < 3 or full[0] or not all(full[1:]):
        return steps, ()
    return steps.slice(1), (f"step {steps['number'][0]}, the first one, is left out: it fills a queue that the profiler's start emptied",)


def _table(steps: pl.DataFrame) -> pl.DataFrame:
    kept = steps.filter(pl.col("end_ns") > pl.col("start_ns")).sort("start_ns")
    kept = kept.with_columns(pl.int_range(pl.len()).alias("step"))
    return kept.select(pl.col(column.name).cast(column.type) for column in STEPS.columns)
