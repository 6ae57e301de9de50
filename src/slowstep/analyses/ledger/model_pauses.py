"""Stretches of the host's time in which the model does nothing: between an update, or a backward, and the next kernel."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.device_work import launching_calls
from slowstep.analyses.events.names import host_named, host_names
from slowstep.analyses.events.training_thread import BACKWARD, OPTIMIZER_RANGE, training_thread
from slowstep.analyses.events.unions import merged
from slowstep.analyses.steps.marks import choose_marks
from slowstep.timeline.intervals import Flags, Ints, containing, union
from slowstep.timeline.timeline import Timeline

StretchEdges = tuple[Ints, Ints]
NEVER: Final = np.iinfo(np.int64).max
LONG_AGO: Final = np.iinfo(np.int64).min


def calls_that_launch(timeline: Timeline, *kinds: str) -> list[pl.DataFrame]:
    """For each kind of device event the host calls that launched some: `start_ns`, `end_ns`, in order."""
    calls = launching_calls(timeline).select("correlation", start_ns="launch_start_ns", end_ns="launch_end_ns").sort("start_ns")
    events = timeline.rows("device_events", "correlation", "kind", kinds=kinds)
    launched = [events.filter(pl.col("kind") == kind)["correlation"].drop_nulls().unique() for kind in kinds]
    return [calls.filter(pl.col("correlation").is_in(numbers.implode())).drop("correlation") for numbers in launched]


class ModelPauses:
    """Where the model of a trace pauses.

    After an update: in a marked step from the end of its last update (where none is seen, of its last launch of a kernel) to its end.
    Kernels may be launched there: metrics are computed on the device too. Anywhere: also from a step's begin, and from the end of any
    update or of any backward that no backward follows, to the next kernel. A step without a kernel tells nothing. `kernels`: the calls
    that launch them, of `calls_that_launch`.
    """

    def __init__(self, timeline: Timeline, kernels: pl.DataFrame) -> None:
        self._launches = kernels["start_ns"].to_numpy()
        self._launched = np.maximum.accumulate(kernels["end_ns"].to_numpy()) if kernels.height else self._launches
        self._updates = self._launching(*_stretches(timeline, ["annotation", "operator"], OPTIMIZER_RANGE))
        self._backward = _stretches(timeline, ["operator"], BACKWARD)
        marks = choose_marks(timeline.table("marked_steps"))[0].filter(pl.col("thread") == training_thread(timeline))
        begin, end = marks["start_ns"].to_numpy(), marks["end_ns"].to_numpy()
        works = self._next_launch(begin) < end
        self._after = self._after_updates(begin[works], end[works])
        self._all = union(*map(np.concatenate, zip(self._after, self._until_launch(begin[works]), strict=True)))

    def after_update(self, start: Ints, end: Ints) -> Flags:
        """Whether each stretch lies after the update of a marked step, shape (n,)."""
        return within(self._after, start, end)

    def anywhere(self, start: Ints, end: Ints) -> Flags:
        """Whether each stretch lies in any pause, shape (n,)."""
        return within(self._all, start, end)

    def _launching(self, begin: Ints, end: Ints) -> StretchEdges:
        """Updates up to their last launch of a kernel: the model does nothing in the rest."""
        launched = _last(self._launched, end)
        return begin, np.where(launched > begin, launched, end)

    def _after_updates(self, begin: Ints, end: Ints) -> StretchEdges:
        launched = _last(self._launched, end)
        # An update counts where it begins: a profiler's step may end in the middle of one.
        at = np.searchsorted(self._updates[0], end) - 1
        began, updated = np.append(self._updates[0], LONG_AGO)[at], np.append(self._updates[1], LONG_AGO)[at]
        return union(np.where(began >= begin, updated, launched), end)

    def _until_launch(self, begins: Ints) -> StretchEdges:
        ends = self._backward[1]
        ends = ends[containing(*self._backward, self._next_launch(ends)) < 0]
        begins = np.concatenate([begins, self._updates[1], ends])
        return begins, self._next_launch(begins)

    def _next_launch(self, at: Ints) -> Ints:
        return np.append(self._launches, NEVER)[np.searchsorted(self._launches, at)]


def _stretches(timeline: Timeline, kinds: list[str], pattern: str) -> StretchEdges:
    names = host_names(timeline, kinds)
    return merged(host_named(timeline, names.filter(pl.col("text").str.contains(pattern))))


def _last(times: Ints, at: Ints) -> Ints:
    """The last of the times, in order, that is not after each instant; the smallest number where there is none."""
    return np.append(times, LONG_AGO)[np.searchsorted(times, at, side="right") - 1]


def within(stretches: StretchEdges, start: Ints, end: Ints) -> Flags:
    """Whether each stretch, shape (n,), lies in one of others, which are sorted and do not overlap."""
    at = containing(*stretches, start)
    return np.asarray((at >= 0) & (end <= np.append(stretches[1], 0)[at]))
