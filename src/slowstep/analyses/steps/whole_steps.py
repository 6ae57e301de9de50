"""Which of the marked steps a trace shows as a whole: all of their time, and the device's work that they launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.events.training_thread import BACKWARD
from slowstep.analyses.steps.lost_work import WHOLE_FROM, find_launched
from slowstep.reasons import Reason, Wording
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# A first or last mark with fewer launches (operators, where there is no device) than this part of a usual one was cut off; so is one that
# ends where the next begins, against what it says itself.
CUT_OFF_BELOW: Final = 0.5
NAMED: Final = 5
COPY_AGAIN: Final = "copy the file again"
FEWER_STEPS: Final = "trace fewer steps at a time"
NOTHING_LEFT: Final = Wording(
    "nothing-left-of-trace",
    "no step is left whose device work is known to be all in the trace, so nothing is said of the device: "
    f"{COPY_AGAIN}, or {FEWER_STEPS} and let the profiler finish writing",
)
LEFT_OUT: Final = Wording("left-out", "{steps} left out: {why}")
ONE_STEP_IS: Final = Wording("one-step-is", "step {number} is")
STEPS_ARE: Final = Wording("steps-are", "steps {numbers} and {last} are")
MANY_STEPS_ARE: Final = Wording("many-steps-are", "{count} steps ({numbers} ...) are")
PARTLY_RECORDED: Final = Wording("partly-recorded", "step {number}, the {end} one, is left out: the profiler recorded only a part of it")
ONLY_ONE_LEFT: Final = Wording("only-one-left", "step {number} is the only one left: it may lack a part too, since the file was cut off")
MARKS_OVERLAP: Final = Wording("marks-overlap", "the marks overlap, and which of them is right is not known")
END_UNKNOWN: Final = Wording("end-unknown", "the marks before overlap, and no other shows where this one ends")
FILE_CUT_OFF: Final = Wording("file-cut-off", "the file was cut off")
EVENTS_MISSING: Final = Wording("events-missing", "events are missing there, since the file was cut off")
NO_OTHER_TELLS: Final = Wording("no-other-tells", "the file was cut off, and no other step shows whether this one is whole")
KERNELS_MISSING: Final = Wording("kernels-missing", "of {launches:,} launches {missing:,} have no kernel in the trace; {remedy}")
LAUNCHES_LOST: Final = Wording("launches-lost", "operators launch less there than in other steps, so records are lost; {remedy}")
# Steps that lack what the device did, or all of whose device work is unknown.
WORK_LOST: Final = (NOTHING_LEFT, KERNELS_MISSING, LAUNCHES_LOST)

Marks = tuple[pl.DataFrame, tuple[Reason, ...]]


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
        notes += (NOTHING_LEFT(),)
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
    left, notes = _without(marks, wrong, MARKS_OVERLAP())
    left, more = _without(left, endless[~wrong], END_UNKNOWN())
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
        marks, notes = _without(marks, last, FILE_CUT_OFF())
        marks, cut = _without(marks, lacks[:-1] | (not told), EVENTS_MISSING())
        notes += cut
    else:
        notes = ()
    if len(marks) != 1:
        return marks, notes
    if work is None:
        return marks, (*notes, ONLY_ONE_LEFT(number=marks["number"][0]))
    alone, left_out = _without(marks, np.ones(1, dtype=bool), NO_OTHER_TELLS())
    return alone, notes + left_out


def _with_their_work(timeline: Timeline, marks: pl.DataFrame, left: pl.DataFrame) -> Marks:
    """Without steps that lack the device's work, of those that are left; all marks are what they are held against."""
    cut = is_cut_off(timeline)
    launched, remedy = find_launched(timeline, marks, at_least=1.0 if cut else WHOLE_FROM), COPY_AGAIN if cut else FEWER_STEPS
    here = marks["start_ns"].is_in(left["start_ns"].implode()).to_numpy()
    unseen, silent = launched.unseen[here], launched.silent[here]
    count, shown = int(launched.launches[here][unseen].sum()), int(launched.shown[here][unseen].sum())
    left, notes = _without(left, unseen, KERNELS_MISSING(launches=count, missing=count - shown, remedy=remedy))
    left, more = _without(left, silent[~unseen], LAUNCHES_LOST(remedy=remedy))
    return left, notes + more


def _without_parts(marks: pl.DataFrame) -> Marks:
    """Without a last and a first step that the profiler recorded only a part of."""
    notes: tuple[Reason, ...] = ()
    for end in ("last", "first"):
        at = len(marks) - 1 if end == "last" else 0
        amounts = marks["amount"].to_numpy()
        others = np.delete(amounts, at) if len(marks) else amounts
        if len(others) and amounts[at] < CUT_OFF_BELOW * np.median(others):
            notes += (PARTLY_RECORDED(number=marks["number"][at], end=end),)
            marks = marks.filter(pl.Series(np.arange(len(marks)) != at))
    return marks, notes


def _without(marks: pl.DataFrame, wrong: NDArray[np.bool_], why: Reason) -> Marks:
    numbers = marks["number"].filter(pl.Series(wrong)).to_list()
    return (marks.filter(pl.Series(~wrong)), (LEFT_OUT(steps=_named(numbers), why=why),)) if numbers else (marks, ())


def _named(numbers: Sequence[int]) -> Reason:
    """Steps as the begin of a sentence."""
    if len(numbers) == 1:
        return ONE_STEP_IS(number=numbers[0])
    if len(numbers) > NAMED:
        return MANY_STEPS_ARE(count=len(numbers), numbers=", ".join(map(str, numbers[:NAMED])))
    return STEPS_ARE(numbers=", ".join(map(str, numbers[:-1])), last=numbers[-1])
