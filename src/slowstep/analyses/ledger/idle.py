"""Why the device had nothing to do: each gap in its work is walked on the host thread that launches the gap's end (table `gaps`).

Of the walk's instants, in this order: those in a named range that tells a stage (`stage_ranges.py`) go to that stage; where the gap began
while the host stood in a call that waits for the device, the rest of that call and what follows its return go to `d2h`, run dry after that
call, but for what has a name and no stage (`own_work.py`: an operator that computes on the host, compiling, allocating); others go to
`compute`, `launch`. Four cases that the law leaves open are decided here:

- A waiting call that began when the device had already run dry waited for nothing, and nothing runs dry after it: a training that is bound
  by its launches has a thousand of them, and without them its device would be idle as before.
- What the host does after the launch call has returned delays nothing: from there to the gap's end it is `launch`, whatever range is open
  (a queue that is full has gaps of a microsecond between kernels too).
- A thread that does nothing of its own accord (autograd's, which waits for the training thread to call `backward`) is filled by the
  training thread: where the launching thread has no event open, the training thread's ranges and calls count.
- A gap after the last work of the trace is ended by no launch: ranges and calls of the training thread count, the rest is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.ledger.host_lane import Lane, Lanes
from slowstep.timeline.intervals import Ints, pieces, union

# What holds at an instant of a gap, beside a named range (its row, from 0) or a waiting call (its row + CALLS).
LAUNCH: Final = -1
NO_LAUNCH: Final = -2
UNNAMED: Final = -3
CALLS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Gaps:
    """Stretches without any work on the device, in order, shape (n,) each: begin, end, who launched what ends it (-1: unknown), when."""

    start_ns: Ints
    end_ns: Ints
    thread: Ints
    launched_ns: Ints
    followed: np.ndarray[tuple[int], np.dtype[np.bool_]]  # work ends the gap; else it is the end of the trace


def find_gaps(work: pl.DataFrame, low_ns: int, high_ns: int) -> Gaps:
    """The gaps of the work (rows of `device_work`) that meet the window; only the first and the last of all are cut to it."""
    first, last = union(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    if len(first) == 0:
        start, end = np.array([low_ns], dtype=np.int64), np.array([high_ns], dtype=np.int64)
    else:
        start, end = np.append(min(low_ns, int(first[0])), last), np.append(first, max(high_ns, int(last[-1])))
    kept = (end > start) & (end > low_ns) & (start < high_ns)
    start, end = start[kept], end[kept]
    real = work.filter(pl.col("end_ns") > pl.col("start_ns"))
    starts = real["start_ns"].to_numpy()
    at = np.searchsorted(starts, end)
    followed = at < len(starts)
    at = np.minimum(at, len(starts) - 1)
    thread = _gathered(real["launch_thread"], at, followed, -1)
    launched = _gathered(real["launch_end_ns"], at, followed, np.iinfo(np.int64).max)
    return Gaps(start, end, thread, np.where(thread >= 0, launched, np.iinfo(np.int64).max), followed)


def _gathered(values: pl.Series, at: Ints, known: np.ndarray[tuple[int], np.dtype[np.bool_]], otherwise: int) -> Ints:
    filled = values.cast(pl.Int64).fill_null(otherwise).to_numpy()
    return np.where(known, filled[at], otherwise) if len(filled) else np.full(len(at), otherwise, dtype=np.int64)


def explain(lanes: Lanes, gaps: Gaps) -> pl.DataFrame:
    """The gaps cut into stretches of one cause: `gap`, `start_ns`, `end_ns`, `cause` (a code of this module), `thread` that it lies on,
    `launched_ns`: when the call that launches the gap's end returned."""
    found = []
    trainer = -1 if lanes.training is None else lanes.training
    walked = np.where(gaps.followed, gaps.thread, trainer)
    for thread in np.unique(walked).tolist():
        rows = np.flatnonzero(walked == thread)
        if thread < 0:
            code = np.where(gaps.followed[rows], NO_LAUNCH, UNNAMED)
            found.append(_frame(rows, gaps.start_ns[rows], gaps.end_ns[rows], code, np.full(len(rows), -1)))
        else:
            found.append(_walk(gaps, rows, lanes.lane(int(thread)), lanes.lane(trainer)))
    if not found:
        return _frame(*(np.zeros(0, dtype=np.int64) for _ in range(5))).with_columns(launched_ns=pl.col("end_ns"))
    merged = _merged(pl.concat(found))
    return merged.with_columns(pl.Series("launched_ns", gaps.launched_ns[merged["gap"].to_numpy()]))


def _walk(gaps: Gaps, rows: Ints, lane: Lane, trainer: Lane) -> pl.DataFrame:
    starts, ends, launched = gaps.start_ns[rows], gaps.end_ns[rows], gaps.launched_ns[rows]
    alone = lane.thread == trainer.thread
    edges = [lane.edges, np.clip(launched, starts, ends)]
    if not alone:
        edges += [trainer.edges, lane.busy_edges]
    of, begin, end = pieces(starts, ends, np.concatenate(edges))
    named, by_lane = lane.named_at(begin), np.ones(len(of), dtype=np.bool_)
    dry = _ran_dry(lane, trainer, starts, launched)[of]
    works = lane.works_at(begin)
    if not alone:
        by_lane = lane.busy_at(begin) | (named >= 0)
        named = np.where(by_lane, named, trainer.named_at(begin))
        works = np.where(by_lane, works, trainer.works_at(begin))
    cause = np.where(gaps.followed[rows][of], LAUNCH, UNNAMED)
    # A call that waits and allocates too, as cudaFree, is what the device ran dry in.
    own = works & (begin < launched[of]) & (begin >= lane.calls.ends(dry))
    cause = np.where(dry >= 0, np.where(own, LAUNCH, dry + CALLS), cause)
    cause = np.where((begin < launched[of]) & (named >= 0), named, cause)
    return _frame(rows[of], begin, end, cause, np.where(by_lane, lane.thread, trainer.thread))


def _ran_dry(lane: Lane, trainer: Lane, starts: Ints, launched: Ints) -> Ints:
    """The waiting call in which the host stood when each gap began, and that returned before the gap's end was launched; -1 for none."""
    dry = lane.waiting_at(starts)
    if lane.thread != trainer.thread:
        # A call of the training thread explains nothing while the launching thread works by itself.
        dry = np.where((dry < 0) & ~lane.busy_at(starts), trainer.waiting_at(starts), dry)
    return np.asarray(np.where(lane.calls.ends(dry) <= launched, dry, -1))


def _frame(gap: Ints, start_ns: Ints, end_ns: Ints, cause: Ints, thread: Ints) -> pl.DataFrame:
    columns = {"gap": gap, "start_ns": start_ns, "end_ns": end_ns, "cause": cause, "thread": thread}
    return pl.DataFrame({name: np.asarray(values, dtype=np.int64) for name, values in columns.items()})


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    """Neighbours of one gap and one cause as one row, on the thread of the first of them."""
    rows = rows.sort("start_ns")
    change = (pl.col("gap") != pl.col("gap").shift(1)) | (pl.col("cause") != pl.col("cause").shift(1))
    groups = rows.with_columns(change.fill_null(True).cum_sum().alias("run")).group_by("run", maintain_order=True)
    return groups.agg(
        pl.col("gap").first(), pl.col("start_ns").first(), pl.col("end_ns").last(), pl.col("cause").first(), pl.col("thread").first()
    ).drop("run")
