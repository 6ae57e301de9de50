"""Which of the marked steps a trace shows as a whole: all of their time, and the device's work that they launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.trace.lost_work import WHOLE_FROM, find_launched
from slowstep.analyses.trace.training_thread import BACKWARD
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# A first or last mark with fewer launches (operators, where there is no device) than this part of a usual one was cut off; so is one that
# ends where the next begins, against what it says itself.
CUT_OFF_BELOW: Final = 0.5
NAMED: Final = 5
COPY_AGAIN: Final = "copy the file again"
FEWER_STEPS: Final = "trace fewer steps at a time"
NOTHING_LEFT: Final = (
    "no step is left whose device work is known to be all in the trace, so nothing is said of the device: "
    f"{COPY_AGAIN}, or {FEWER_STEPS} and let the profiler finish writing"
)

Marks = tuple[pl.DataFrame, tuple[str, ...]]


def whole_steps(timeline: Timeline, marks: pl.DataFrame, work: pl.DataFrame | None) -> Marks:
    """The marks of steps that are whole, and notes on those that are left out. `work`: the table `device_work`, None without a device."""
    if marks.is_empty():
        return marks, ()
    marks = marks.with_columns(pl.Series("amount", _amounts(timeline, marks, work)), length_ns=pl.col("end_ns") - pl.col("start_ns"))
    left, notes = _well_bounded(marks)
    if is_cut_off(timeline):
        left, cut = _of_cut_file(left, work)
        notes += cut
    if work is not None:
        left, lost = _with_their_work(timeline, marks, left)
        notes += lost
    left, ends = _without_parts(left)
    notes += ends
    if work is not None and left.is_empty():
        notes += (NOTHING_LEFT,)
    return left, notes


def is_cut_off(timeline: Timeline) -> bool:
    """Whether the file ends before all of the trace."""
    return timeline.trace is not None and not timeline.trace.complete


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


def _well_bounded(marks: pl.DataFrame) -> Marks:
    """Without steps whose bounds overlapping marks leave open: two of which the second begins where the first has done little, and a long
    one that no other ends, where the one before reached over its end.
    """
    amounts, over_ns, length_ns = (marks[name].to_numpy() for name in ("amount", "over_ns", "length_ns"))
    wrong = (over_ns > 0) & (amounts < CUT_OFF_BELOW * np.median(amounts))
    endless = np.append(False, over_ns[:-1] > 0) & (over_ns == 0) & (WHOLE_FROM * length_ns > np.median(length_ns))
    wrong |= np.append(False, wrong[:-1])
    left, notes = _without(marks, wrong, "the marks overlap, and which of them is right is not known")
    left, more = _without(left, endless[~wrong], "the marks before overlap, and no other tells where this one ends")
    return left, notes + more


def _of_cut_file(marks: pl.DataFrame, work: pl.DataFrame | None) -> Marks:
    """Without the last step, and without those that hold less than others do: events are not written in order of time, any step may lack
    some. Like ones are whole. Of one alone nobody can tell, and what a device did not do by the trace is what it is blamed for.
    """
    if marks.is_empty():
        return marks, ()
    told = work is None or bool(work["launch_start_ns"].is_not_null().any())
    last = np.arange(len(marks)) == len(marks) - 1
    # The last one, too, holds no more than a whole one does.
    lacks = marks["amount"].to_numpy() < WHOLE_FROM * int(marks["amount"].max())  # type: ignore[arg-type]
    if len(marks) > 1:
        marks, notes = _without(marks, last, "the file was cut off")
        marks, cut = _without(marks, lacks[:-1] | (not told), "events are missing there, since the file was cut off")
        notes += cut
    else:
        notes = ()
    if len(marks) != 1:
        return marks, notes
    if work is None:
        return marks, (*notes, f"step {marks['number'][0]} is the only one left: it may lack a part too, since the file was cut off")
    alone, left_out = _without(marks, np.ones(1, dtype=bool), "the file was cut off, and no other step tells whether this one is whole")
    return alone, notes + left_out


def _with_their_work(timeline: Timeline, marks: pl.DataFrame, left: pl.DataFrame) -> Marks:
    """Without steps that lack the device's work, of those that are left; all marks are what they are held against."""
    cut = is_cut_off(timeline)
    launched, remedy = find_launched(timeline, marks, at_least=1.0 if cut else WHOLE_FROM), COPY_AGAIN if cut else FEWER_STEPS
    here = marks["start_ns"].is_in(left["start_ns"].implode()).to_numpy()
    unseen, silent = launched.unseen[here], launched.silent[here]
    count, shown = int(launched.launches[here][unseen].sum()), int(launched.shown[here][unseen].sum())
    left, notes = _without(left, unseen, f"of {count:,} launches {count - shown:,} have no kernel in the trace; {remedy}")
    why = f"operators launch less there than in other steps, so records are lost; {remedy}"
    left, more = _without(left, silent[~unseen], why)
    return left, notes + more


def _without_parts(marks: pl.DataFrame) -> Marks:
    """Without a last and a first step that the profiler recorded only a part of."""
    notes: tuple[str, ...] = ()
    for end in ("last", "first"):
        at = len(marks) - 1 if end == "last" else 0
        amounts = marks["amount"].to_numpy()
        others = np.delete(amounts, at) if len(marks) else amounts
        if len(others) and amounts[at] < CUT_OFF_BELOW * np.median(others):
            notes += (f"step {marks['number'][at]}, the {end} one, is left out: the profiler recorded only a part of it",)
            marks = marks.filter(pl.Series(np.arange(len(marks)) != at))
    return marks, notes


def _without(marks: pl.DataFrame, wrong: NDArray[np.bool_], why: str) -> Marks:
    numbers = marks["number"].filter(pl.Series(wrong)).to_list()
    return (marks.filter(pl.Series(~wrong)), (f"{_named(numbers)} left out: {why}",)) if numbers else (marks, ())


def _named(numbers: Sequence[int]) -> str:
    """Steps as the begin of a sentence."""
    if len(numbers) == 1:
        return f"step {numbers[0]} is"
    if len(numbers) > NAMED:
        return f"{len(numbers)} steps ({', '.join(map(str, numbers[:NAMED]))} ...) are"
    return f"steps {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} are"
