"""The steps of a trace: marked, inferred from what repeats, or the whole trace as one.

A mark says when the host was in a step. The device trails it: a host that runs ahead ends its steps long before the device does, and the
lengths of its marks say how full the queue is, not how long a step takes. So with a device a step begins when the host has begun it *and*
the device has finished what the steps before launched; it ends where the next begins. Where the device waits for the host that is the
mark's begin; where the host waits for the device it is the device's. `host_start_ns` and `host_end_ns` keep the mark. A trace without
steps that is taken as one begins with the device's first work: what the host did before is start-up, and left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.device_work import busiest_device, device_work
from slowstep.analyses.events.held import held_longest
from slowstep.analyses.events.tables import INFERRED, STEPS, WINDOW
from slowstep.analyses.events.training_thread import training_thread
from slowstep.analyses.steps.marks import choose_marks
from slowstep.analyses.steps.repetition import infer_marks
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.traced_training import is_training
from slowstep.analyses.steps.whole_steps import NOTHING_LEFT, is_cut_off, whole_steps
from slowstep.reasons import Reason, Wording
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# Shares are shown in whole percents: what rounds to none is left out without a word.
SAID_FROM: Final = 0.005

START_UP: Final = Wording(
    "start-up", "{ns:duration} before the device's first work ({share:share} of the trace{most}) are start-up and left out"
)
MOST_IN_CALL: Final = Wording("most-in-call", ", most of it in {call}")


def start_up_note(timeline: Timeline, begin_ns: int, first_work_ns: int, end_ns: int, thread: int | None) -> tuple[Reason, ...]:
    """A note on the stretch from the begin of the trace to the device's first work, with the call that held longest in it.

    Whether that is the start of the runtime or the making of a first batch, a trace without steps does not tell; `end_ns` is its end.
    """
    length_ns = first_work_ns - begin_ns
    if length_ns < SAID_FROM * (end_ns - begin_ns):
        return ()
    stretch = {"thread": -1 if thread is None else thread, "start_ns": begin_ns, "end_ns": first_work_ns, "launched_ns": first_work_ns}
    host = timeline.rows("host_events", "thread", "start_ns", "end_ns", "kind", "name").filter(pl.col("start_ns") < first_work_ns)
    # Of two that begin and end together the same one is named, whatever their order in the file.
    host = host.sort("start_ns", "end_ns", "kind", pl.col("name").cast(pl.String))
    call = held_longest(host, pl.DataFrame([stretch]))[0][0]
    most = None if call is None else MOST_IN_CALL(call=call)
    return (START_UP(ns=length_ns, share=length_ns / (end_ns - begin_ns), most=most),)


STEPS_INFERRED = Wording("steps-inferred", "the trace marks no steps: they were inferred from {source}")
NO_TIME = Wording("no-time", "the trace holds no time that could be divided")
NONE_INFERRED_NONE_LEFT = Wording("none-inferred-none-left", "the trace marks no steps and none could be inferred; {why}")
TAKEN_AS_ONE = Wording("taken-as-one", "the trace marks no steps and none could be inferred: it is taken as one step")
FILLS_THE_QUEUE = Wording(
    "fills-the-queue", "step {number}, the first one, is left out: it fills a queue that the profiler's start emptied"
)


def find_trace_steps(timeline: Timeline) -> tuple[pl.DataFrame, tuple[Reason, ...]]:
    """The window's steps (table `steps`), and notes: what was inferred, what was left out. No rows where the trace is empty."""
    device = busiest_device(timeline)
    work = None if device is None else device_work(timeline, device)
    marks, notes = choose_marks(timeline.table("marked_steps"))
    if marks.is_empty():
        # What repeats in an inference may be a layer or a request: nothing tells which of them a step is.
        inferred = infer_marks(timeline) if is_training(timeline) else None
        if inferred is None:
            return _whole(timeline, notes, work)
        marks = inferred[0].with_columns(pl.lit(INFERRED).alias("mark"), pl.lit(0).alias("over_ns"))
        notes += (STEPS_INFERRED(source=inferred[1]),)
    marks, left_out = whole_steps(timeline, marks, work)
    steps = _bounded(marks, work)
    steps, started = _without_start(steps, work)
    return _table(steps), (*notes, *left_out, *started)


def last_end_ns(timeline: Timeline, work: pl.DataFrame) -> int | None:
    """When the last marked step ended, of the device's `work` (table `device_work`) too; None where no step is marked."""
    marks, _ = choose_marks(timeline.table("marked_steps"))
    return None if marks.is_empty() else int(_bounded(marks, work)["end_ns"][-1])


def _whole(timeline: Timeline, notes: tuple[Reason, ...], work: pl.DataFrame | None) -> tuple[pl.DataFrame, tuple[Reason, ...]]:
    events = pl.concat([timeline.rows(name, "start_ns", "end_ns") for name in ("host_events", "device_events")])
    if events.is_empty() or events["end_ns"].max() == events["start_ns"].min():
        return STEPS.empty(), (*notes, NO_TIME())
    if work is not None and is_cut_off(timeline):
        return STEPS.empty(), (*notes, NONE_INFERRED_NONE_LEFT(why=NOTHING_LEFT()))
    thread = training_thread(timeline)
    begin_ns, end_ns = (int(value) for value in events.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0))
    first_ns, launched_ns = (begin_ns, begin_ns) if work is None else _first_work(work)
    row = {"number": 0, "mark": WINDOW, "thread": thread, "start_ns": first_ns, "end_ns": end_ns}
    rows = pl.DataFrame([row | {"host_start_ns": launched_ns, "host_end_ns": end_ns}])
    left_out = start_up_note(timeline, begin_ns, first_ns, end_ns, thread)
    return _table(rows), (*notes, TAKEN_AS_ONE(), *left_out)


def _first_work(work: pl.DataFrame) -> tuple[int, int]:
    """When the device's first work began, and when the host launched it (where that is unknown: the same instant)."""
    begin_ns, launched_ns = work.select("start_ns", "launch_start_ns").row(0)
    return begin_ns, begin_ns if launched_ns is None else min(begin_ns, launched_ns)


def _bounded(marks: pl.DataFrame, work: pl.DataFrame | None) -> pl.DataFrame:
    """The steps with their begins and ends on the device's clock; without known launches those of the marks."""
    starts, ends = marks["start_ns"].to_numpy(), marks["end_ns"].to_numpy()
    begins, own_ends = np.maximum(starts, _done(starts, marks, work)), np.maximum(ends, _done(ends, marks, work))
    numbers = marks["number"].to_numpy()
    # Numbers that follow each other leave nothing between two steps; else what lies there is neither's.
    follows = np.diff(numbers) == 1 if len(numbers) > 1 else np.zeros(0, dtype=bool)
    closes = np.append(np.where(follows, begins[1:], np.minimum(own_ends[:-1], begins[1:])), own_ends[-1:])
    return marks.with_columns(
        pl.Series("host_start_ns", starts), pl.Series("host_end_ns", ends), pl.Series("start_ns", begins), pl.Series("end_ns", closes)
    )


def _done(times_ns: Ints, marks: pl.DataFrame, work: pl.DataFrame | None) -> Ints:
    """When the device had finished what was launched before each of some moments on the host, shape (n,)."""
    never = np.full(len(times_ns), np.iinfo(np.int64).min)
    if work is None or marks.is_empty():
        return never
    known = work.filter(pl.col("launch_start_ns").is_not_null()).sort("launch_start_ns")
    if known.is_empty():
        return never
    launched, ended = known["launch_start_ns"].to_numpy(), np.maximum.accumulate(known["end_ns"].to_numpy())
    before = np.searchsorted(launched, times_ns)
    done = np.where(before > 0, ended[np.maximum(before - 1, 0)], never)
    return np.asarray(np.maximum(done, _left_over(work, marks["start_ns"][0], marks["end_ns"][0])))


def _left_over(work: pl.DataFrame, start_ns: int, end_ns: int) -> int:
    """When the last event ended that runs before the first step's own, and whose launch is older than the trace."""
    launched = pl.col("launch_start_ns")
    own = work.filter(launched.is_between(start_ns, end_ns, closed="left"))["start_ns"].min()
    older = work.filter(launched.is_null() & (pl.col("start_ns") < own)) if isinstance(own, int) else work.clear()
    ended = older["end_ns"].max()
    return ended if isinstance(ended, int) else np.iinfo(np.int64).min


def _without_start(steps: pl.DataFrame, work: pl.DataFrame | None) -> tuple[pl.DataFrame, tuple[Reason, ...]]:
    """Leave out a first step that begins with an empty queue where all others begin with a full one: the profiler's start emptied it."""
    full = (steps["start_ns"] > steps["host_start_ns"]).to_list()
    if work is None or len(full) < 3 or full[0] or not all(full[1:]):
        return steps, ()
    return steps.slice(1), (FILLS_THE_QUEUE(number=steps["number"][0]),)


def _table(steps: pl.DataFrame) -> pl.DataFrame:
    kept = steps.filter(pl.col("end_ns") > pl.col("start_ns")).sort("start_ns")
    kept = kept.with_columns(pl.int_range(pl.len()).alias("step"))
    return kept.select(pl.col(column.name).cast(column.type) for column in STEPS.columns)


def as_steps(rows: pl.DataFrame, total: int, batch_size: int | None = None, batch_size_from: str | None = None) -> Steps:
    """The rows of `STEPS` as steps of the window, of so many in all: what lies between two of them is in none."""
    edges = rows.select("start_ns", "end_ns").to_numpy().ravel().astype(np.int64)
    excluded = np.arange(max(len(edges) - 1, 0)) % 2 == 1
    return Steps(
        boundary=str(rows["mark"][0]) if rows.height else WINDOW,
        edges_ns=edges,
        excluded=excluded,
        samples=np.full(rows.height, np.nan),
        batch_size=batch_size,
        batch_size_from=batch_size_from,
        batch_sizes=None,
        size_changes=(),
        batches_per_step=None,
        requests_per_step=None,
        warmup=0,
        asked_warmup=None,
        includes_warmup=False,
        total=total,
        only_counted=0,
        eventful=np.zeros(rows.height, dtype=bool),
        period=1,
        whole_periods=False,
    )
