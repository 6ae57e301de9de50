"""Steps: where each begins and ends, which belong to the warm-up, and the window that the ledger divides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.batches import SizeChange, find_batches
from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.counted_batches import with_counted
from slowstep.analyses.steps.suspensions import Suspensions
from slowstep.analyses.steps.trainer import Trainer
from slowstep.errors import NothingRecorded
from slowstep.timeline.intervals import Flags, Ints
from slowstep.units import format_count

# The definition of warm-up (docs/definitions.md).
WARMUP_MEDIAN_OF = 10
WARMUP_WITHIN = 0.10
WARMUP_AT_LEAST = 3
WARMUP_AT_MOST_SHARE = 0.20
# Of fewer nothing is judged.
STEPS_AT_LEAST = 30
# Less time tells no more, however many its steps: of stacks, too, there are 200 by then.
ENOUGH_NS = 10e9
# What a report asks for where it had too few: epochs, callbacks and validations then recur in most trainings.
ENOUGH_STEPS = 200
# A median of 100,000 steps takes a millisecond: in long recordings not every step is tried as the first.
WARMUP_TRIES = 500

Floats = NDArray[np.float64]
# The boundary of steps of which what runs after the update ends the step, and begins none.
REQUEST_FOR_INPUT = "request for input"


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The steps of the window, those of which only the number was kept (thinning) left out of all counts and figures per step.

    `edges_ns` bounds the stretches between boundaries, n + 1 instants for n of them. A stretch is a step, or one of `excluded`: steps that
    the recorder only counted, in which the process was stopped, or that a profiler captured, or what lies between two steps that a
    profiler marks. `samples` and `eventful` are per step, samples NaN where unknown.
    """

    # "request for input", "end of the optimizer call" or, without one, "... of backward" or "... of the call that updates"; of steps that a
    # profiler marks, the kind of the mark.
    boundary: str
    edges_ns: Ints
    excluded: Flags
    samples: Floats
    batch_size: int | None  # of most batches in the window
    batch_size_from: str | None
    batch_sizes: tuple[int, int] | None  # the smallest and the largest usual one in the window, where it changes
    size_changes: tuple[SizeChange, ...]  # in the whole recording
    batches_per_step: float | None  # that the usual step trains on; None where no batch was seen
    requests_per_step: float | None  # batches that it asks for: more where it makes one of several
    warmup: int
    asked_warmup: int | None  # what was asked to be left out instead of what would have been found
    includes_warmup: bool  # the window does: so few steps were recorded that none is left out
    total: int  # in the whole recording, those only counted included
    only_counted: int
    eventful: Flags  # steps with a periodic event: epoch change, validation, checkpoint
    period: int  # steps in the longest period seen, 1 where none is
    whole_periods: bool  # the window was cut to whole periods (two or more were seen)
    is_batch_size_assumed: bool = False  # no loader told it: samples may lie along another dimension than the first

    @property
    def duration_ns(self) -> Ints:
        """Length of each step."""
        return np.diff(self.edges_ns)[~self.excluded]

    @property
    def count(self) -> int:
        """Steps in the window."""
        return int((~self.excluded).sum())

    @property
    def asked_too_many(self) -> bool:
        """Whether there would be enough steps, had not so many been asked to be left out."""
        found_at_most = WARMUP_AT_MOST_SHARE * self.total
        is_more = self.asked_warmup is not None and self.asked_warmup > found_at_most
        return is_more and self.count < STEPS_AT_LEAST <= self.total - found_at_most

    @property
    def stretches(self) -> int:
        """Stretches between boundaries, the excluded ones included."""
        return len(self.excluded)

    def stretch_at(self, time_ns: Ints) -> tuple[Ints, Flags]:
        """The stretch that each instant lies in, and whether there is one; before the window it is -1, after it `stretches`."""
        at = np.asarray(np.searchsorted(self.edges_ns, time_ns, side="right") - 1)
        return at, (at >= 0) & (at < self.stretches)

    def step_at(self, time_ns: Ints) -> tuple[Ints, Flags]:
        """The same, and whether that is a step of the window."""
        at, inside = self.stretch_at(time_ns)
        inside[inside] = ~self.excluded[at[inside]]
        return at, inside

    @property
    def bounds_ns(self) -> tuple[int, int]:
        """Begin and end of the window."""
        return int(self.edges_ns[0]), int(self.edges_ns[-1])

    @property
    def length_ns(self) -> int:
        """Length of all steps together."""
        return int(self.duration_ns.sum())


def find_steps(
    trainer: Trainer,
    totals: pl.DataFrame,
    suspensions: Suspensions,
    warmup: int | None = None,
    *,
    capture: Capture | None = None,
    counted: pl.DataFrame | None = None,
) -> Steps:
    """Cut the training into steps; `counted` has what a framework only counts.

    Raises NothingRecorded where not one has both a beginning and an end.
    """
    kind, edges = _enough_boundaries(trainer)
    totals = totals.filter(pl.col("process") == trainer.process)
    left_out = _left_out(edges, totals, suspensions, capture)
    batches = find_batches(trainer, edges, totals)
    if counted is not None:
        batches = with_counted(batches, trainer, counted)
    skip = find_warmup(np.diff(edges)[~left_out]) if warmup is None else min(warmup, len(edges) - 2)
    skip = _index_of_kept(skip, left_out)
    events = _events(trainer, edges)
    first, last, period, whole = _whole_periods(events, skip, len(edges) - 1)
    excluded = left_out[first:last]
    _refuse_empty(edges, first, last, excluded)
    size = batches.usual(first, last)
    return Steps(
        boundary=kind,
        edges_ns=edges[first : last + 1],
        excluded=excluded,
        samples=batches.samples[first:last][~excluded],
        batch_size=size,
        batch_size_from=None if size is None else batches.size_from,
        is_batch_size_assumed=size is not None and batches.is_size_assumed,
        batch_sizes=batches.sizes_within(first, last),
        size_changes=batches.changes,
        batches_per_step=batches.per_step,
        requests_per_step=batches.requests_per_step,
        warmup=skip,
        asked_warmup=warmup,
        includes_warmup=warmup is None and first < WARMUP_AT_LEAST,
        total=len(trainer.update_end_ns) + int(totals["steps"].sum()),
        only_counted=int(totals["steps"].sum()),
        eventful=_has_any(events, len(edges) - 1)[first:last][~excluded],
        period=period,
        whole_periods=whole,
    )


def _enough_boundaries(trainer: Trainer) -> tuple[str, Ints]:
    """The boundaries, of a short recording those at its ends too. Raises NothingRecorded where they bound no step."""
    kind, edges = _boundaries(trainer)
    if len(edges) <= WARMUP_AT_LEAST:
        edges = _with_ends(trainer, edges)
    if len(edges) < 2:
        there = format_count(len(trainer.update_end_ns), "update")
        raise NothingRecorded(f"only {there} recorded, and not where its step begins: let the training run longer.")
    return kind, edges


def _refuse_empty(edges: Ints, first: int, last: int, excluded: NDArray[np.bool_]) -> None:
    """Raises NothingRecorded where no step of the window is left, or all of them took no time."""
    if excluded.all():
        raise NothingRecorded(f"of {len(edges) - 1} steps only those are left that were captured or just counted: record more.")
    if edges[first] == edges[last]:
        # By a clock that stood still, or in a damaged recording: of no time there are no shares.
        raise NothingRecorded(f"all {last - first} steps after the warm-up took no time: the recording is damaged, record again.")


def _boundaries(trainer: Trainer) -> tuple[str, Ints]:
    """The kind of boundary that holds for the run, and the boundaries."""
    ends = trainer.update_end_ns
    if trainer.is_fed:
        following = trainer.next_request_ns()
        has = following < np.iinfo(np.int64).max
        return REQUEST_FOR_INPUT, np.where(has, following, ends)[: len(ends) if has[-1] else -1]
    if trainer.by_hand:
        return "end of backward", ends
    return "end of the optimizer call" if trainer.has_optimizers else "end of the call that updates", ends


def _with_ends(trainer: Trainer, edges: Ints) -> Ints:
    """Of very few steps the first one too, where it is known from its request for input on.

    Of a single update also what is known of its step: from the forward on, or to the optimizer's end.
    """
    first, last = int(trainer.update_start_ns[0]), int(trainer.update_end_ns[-1])
    asked, forwards = (np.asarray(table["start_ns"].to_numpy()) for table in (trainer.waits, trainer.training_forwards))
    begins = asked if trainer.is_fed else forwards if len(edges) < 2 else asked[:0]
    before = begins[begins < first][:1].tolist()
    after = [] if len(edges) else [last]
    return np.array([*before, *edges.tolist(), *after], dtype=np.int64)


def _left_out(edges: Ints, totals: pl.DataFrame, suspensions: Suspensions, capture: Capture | None) -> NDArray[np.bool_]:
    """Which steps are not looked at: their details were left out, the process stood still in them, or a profiler captured them."""
    left_out = _thinned(edges, totals) | suspensions.holds(edges)
    return left_out if capture is None else left_out | capture.holds(edges)


def _thinned(edges: Ints, totals: pl.DataFrame) -> NDArray[np.bool_]:
    """Which stretches between boundaries hold steps that the recorder only counted."""
    thinned = np.zeros(len(edges) - 1, dtype=bool)
    for start, end in totals.select("start_ns", "end_ns").iter_rows():
        first = int(np.searchsorted(edges, start, side="right")) - 1
        last = int(np.searchsorted(edges, end, side="left"))
        thinned[max(first, 0) : last] = True
    return thinned


def _index_of_kept(skip: int, left_out: NDArray[np.bool_]) -> int:
    kept = np.flatnonzero(~left_out)
    return int(kept[min(skip, len(kept) - 1)]) if len(kept) else skip


def find_warmup(duration_ns: Ints) -> int:
    """Steps to leave out at the start: until the median of 10 is within 10 % of the median of the rest; 3 at least, 20 % at most.

    None of so few that three are more than that.
    """
    n = len(duration_ns)
    most = int(n * WARMUP_AT_MOST_SHARE)
    if most <= WARMUP_AT_LEAST:
        return WARMUP_AT_LEAST if most == WARMUP_AT_LEAST else 0
    for first in range(WARMUP_AT_LEAST, most, max((most - WARMUP_AT_LEAST) // WARMUP_TRIES, 1)):
        rest = float(np.median(duration_ns[first:]))
        here = float(np.median(duration_ns[first : first + WARMUP_MEDIAN_OF]))
        if abs(here - rest) <= WARMUP_WITHIN * rest:
            return first
    return most


def _events(trainer: Trainer, edges: Ints) -> list[Ints]:
    """For each kind of event that is not in every step: the steps in which it happens."""
    kinds = [
        trainer.starts["start_ns"],
        trainer.other_starts["start_ns"],
        trainer.spans.filter(pl.col("kind") == "save")["start_ns"],
    ]
    found = []
    for times in kinds:
        step = np.unique(np.searchsorted(edges, times.to_numpy(), side="right") - 1)
        step = step[(step >= 0) & (step < len(edges) - 1)]
        if 0 < len(step) < 0.9 * (len(edges) - 1):
            found.append(step)
    return found


def _has_any(events: list[Ints], steps: int) -> NDArray[np.bool_]:
    """In which of the steps any of the events is."""
    found = np.zeros(steps, dtype=bool)
    for each in events:
        found[each] = True
    return found


def _whole_periods(events: list[Ints], first: int, last: int) -> tuple[int, int, int, bool]:
    """First and last step of the window, the longest period in steps, and whether the window holds whole ones."""
    period, whole, window = 1, True, (first, last)
    for steps in events:
        inside = steps[steps >= first]
        if len(inside) == 0:
            continue
        usual = int(np.median(np.diff(inside))) if len(inside) > 1 else last - first
        if usual <= period:
            continue
        period, whole = usual, len(inside) >= 3
        window = (int(inside[0]), int(inside[-1])) if whole else (first, last)
    return *window, period, whole
