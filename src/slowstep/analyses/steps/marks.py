"""The marks of steps that a trace holds, as one series that does not overlap: a name for each step, begin and end on the host's clock."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.health import Health, HealthKind
from slowstep.reasons import Reason, Wording

MARKS_WITHOUT_LENGTH: Final = HealthKind(
    "marks-without-length",
    "notice",
    "such a step cannot be told from its neighbours, and its time is in no step; trace again if there are many",
)
MISSING_STEP_MARKS: Final = HealthKind(
    "missing-step-marks",
    "notice",
    "places where the numbers of the marked steps do not follow each other: what lies there is in no step; trace again if many",
)
OVERLAPPING_STEP_MARKS: Final = HealthKind(
    "overlapping-step-marks",
    "notice",
    "such a mark ends where that of the next number begins, others were left out; mark each step once, and nothing but it",
)
# Whose marks count where there are several kinds: the profiler's own come from the training loop, the others may mark anything.
KINDS: Final = ("ProfilerStep", "step_num", "Profiled batch", "NVTX")
# So many equal distances between numbers are a way of counting (every tenth step is marked), no loss.
FEWEST_DISTANCES: Final = 2
# Times are written in units: three decimals of a microsecond, or whole microseconds in Kineto's older schemas. A begin, a length and the
# next begin may each be off by less than one, so that marks which meet seem to overlap by up to two. (Of 60 made traces whose times were
# rounded so 34 did, by one or two; of the real ones in tests/data/kineto none, whose marks are 17 us and more apart.)
COARSEST_UNIT_NS: Final = 1000
UNITS_OFF: Final = 2

WITHOUT_LENGTH: Final = Wording("without-length", "{marks:count marked step} without length {marks:plural was|were} left out")
OF_OTHER_KINDS: Final = Wording(
    "of-other-kinds", "{marks:count marked step} of {marks:plural another kind or thread was|other kinds or threads were} left out"
)
OVERLAPPING: Final = Wording(
    "overlapping", "{marks:count marked step} that {marks:plural overlaps others was|overlap others were} left out"
)
REACHING_OVER: Final = Wording("reaching-over", "{marks:count marked step} {marks:plural ends|end} where the next begins, not after it")
NUMBERS_MISSING: Final = Wording(
    "numbers-missing",
    "after step {after}{places} the numbers of the marked steps do not follow each other: what lies there is in no step",
)
MORE_PLACES: Final = Wording("more-places", " and in {places} more places")


def choose_marks(marks: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Reason, ...]]:
    """Of all marked steps (table `marked_steps`) those of one kind and one thread, in order, none inside another; and what was left out.

    Of several kinds the first of `KINDS` counts, of several threads the one with most steps. A mark around two or more others is no step
    (an epoch). A mark that reaches into the one of the next number ends where that begins: `over_ns` is by how much it reached over. Of
    others that overlap an outer one counts, and none of two that cross. Marks without length are kept out.
    """
    usable = _with_length(marks)
    chosen = _of_one_series(usable)
    kept = _without_overlap(chosen)
    others = len(usable) - len(chosen)
    notes = (
        _said(WITHOUT_LENGTH, len(marks) - len(usable)),
        _said(OF_OTHER_KINDS, others),
        _said(OVERLAPPING, len(chosen) - len(kept)),
        _said(REACHING_OVER, _reaching(kept)),
        _said_missing(kept["number"]),
    )
    return kept, tuple(note for note in notes if note is not None)


def find_mark_doubts(marks: pl.DataFrame) -> tuple[Health, ...]:
    """Marks of steps (table `marked_steps`) that are lost or doubtful: what they stand for is in no step, or its bounds are another's."""
    usable = _with_length(marks)
    chosen = _of_one_series(usable)
    kept = _without_overlap(chosen)
    left_out = len(chosen) - len(kept) - int(_around(chosen).sum())
    found = (
        (MARKS_WITHOUT_LENGTH, len(marks) - len(usable)),
        # A mark without length was counted above.
        (MISSING_STEP_MARKS, len(_missing_after(_without_overlap(_of_one_series(marks))["number"]))),
        (OVERLAPPING_STEP_MARKS, left_out + _reaching(kept)),
    )
    return tuple(kind(count) for kind, count in found if count)


def _with_length(marks: pl.DataFrame) -> pl.DataFrame:
    return marks.filter(pl.col("end_ns") > pl.col("start_ns"))


def _of_one_series(marks: pl.DataFrame) -> pl.DataFrame:
    """The marks of the best kind and thread, in order of time."""
    if marks.is_empty():
        return marks
    rank = pl.col("mark").replace_strict({kind: at for at, kind in enumerate(KINDS)}, default=len(KINDS), return_dtype=pl.Int32)
    groups = marks.with_columns(rank.alias("rank")).group_by("rank", "mark", "thread").agg(pl.len(), pl.col("start_ns").min())
    best = groups.sort(["rank", "len", "start_ns", "thread"], descending=[False, True, False, False]).row(0, named=True)
    of_best = (pl.col("mark") == best["mark"]) & pl.col("thread").eq_missing(pl.lit(best["thread"], dtype=pl.Int32))
    return marks.filter(of_best).sort("start_ns", "end_ns", descending=[False, True])


def _without_overlap(marks: pl.DataFrame) -> pl.DataFrame:
    """The marks that do not overlap, in order, with `over_ns`: how much later than the begin of the next one was said to end.

    What two overlap by rounding alone is taken from the first, and is none.
    """
    start_ns, ends_ns, number = marks["start_ns"].to_list(), marks["end_ns"].to_list(), marks["number"].to_list()
    rounded_ns = UNITS_OFF * _unit_ns(marks)
    kept, over_ns = [False] * len(marks), [0] * len(marks)
    last = -1
    for at in np.flatnonzero(~_around(marks)).tolist():
        if last >= 0 and start_ns[last] < start_ns[at] < ends_ns[last] <= start_ns[at] + rounded_ns:
            ends_ns[last] = start_ns[at]
        overlaps = last >= 0 and start_ns[at] < ends_ns[last]
        follows = overlaps and number[at] == number[last] + 1 and start_ns[at] > start_ns[last]
        if follows:
            over_ns[last] = ends_ns[last] - start_ns[at]
            ends_ns[last] = start_ns[at]
        elif overlaps and ends_ns[at] <= ends_ns[last]:
            continue
        elif overlaps:
            kept[last] = False
        kept[at], last = follows or not overlaps, at
    columns = (pl.Series("end_ns", ends_ns, dtype=pl.Int64), pl.Series("over_ns", over_ns, dtype=pl.Int64))
    return marks.with_columns(columns).filter(pl.Series(kept, dtype=pl.Boolean))


def _unit_ns(marks: pl.DataFrame) -> int:
    """The unit in which the marks' times are written: the largest that all of them are multiples of."""
    times_ns = pl.concat([marks["start_ns"], marks["end_ns"]]).to_numpy()
    return int(np.gcd.reduce(np.append(times_ns, COARSEST_UNIT_NS)))


def _reaching(marks: pl.DataFrame) -> int:
    return int((marks["over_ns"] > 0).sum())


def _around(marks: pl.DataFrame) -> NDArray[np.bool_]:
    """Which marks, in order of their begins, are around two or more others."""
    start_ns, end_ns = marks["start_ns"].to_numpy(), marks["end_ns"].to_numpy()
    inside = np.searchsorted(start_ns, end_ns, side="left") - np.arange(len(start_ns)) - 1
    ends = np.sort(end_ns)
    ends_inside = np.searchsorted(ends, end_ns, side="right") - np.searchsorted(ends, start_ns, side="right") - 1
    return np.asarray((inside >= 2) & (ends_inside >= 2))


def _missing_after(numbers: pl.Series) -> list[int]:
    """The numbers after which some are left out, of the marks in order of time. A series that always counts by as much lacks none."""
    distances = numbers.diff().drop_nulls()
    if len(distances) >= FEWEST_DISTANCES and distances.n_unique() == 1:
        return []
    return numbers.head(len(distances)).filter(distances > 1).to_list()


def _said(what: Wording, count: int) -> Reason | None:
    return what(marks=count) if count else None


def _said_missing(numbers: pl.Series) -> Reason | None:
    after = _missing_after(numbers)
    if not after:
        return None
    places = MORE_PLACES(places=len(after) - 1) if len(after) > 1 else None
    return NUMBERS_MISSING(after=after[0], places=places)
