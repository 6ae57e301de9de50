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

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import polars as pl

from slowstep.timeline.intervals import Ints, containing, cut, ranges, union
from slowstep.timeline.spine import LONG_AGO, NEVER, NONE, DeviceIntervals, HostLane, HostLanes

# What holds at an instant of a gap, beside a named range (its row, from 0) or a waiting call (its row + CALLS).
LAUNCH: Final = -1
NO_LAUNCH: Final = -2
UNNAMED: Final = -3
CALLS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Gaps:
    """Stretches in which the device had, or may have had, nothing to do, shape (n,) each: the number of the gap, begin and end, when the
    device ran out of work (between two times), who dispatched what ends the gap (NONE: unknown), and when (between two times).

    Where it is known when the device worked there is one row for each gap. Else they are cut where what may be changes, and a row stands
    for each work that may be the one that ends it.
    """

    gap: Ints
    start_ns: Ints
    end_ns: Ints
    dry_low_ns: Ints
    dry_high_ns: Ints
    thread: Ints
    launched_low_ns: Ints
    launched_high_ns: Ints
    followed: np.ndarray[tuple[int], np.dtype[np.bool_]]  # work ends the gap; else it is the end of the trace

    def taken(self, rows: Ints, **columns: Ints) -> Gaps:
        """Some of the rows, with other values in some columns."""
        return Gaps(**{field.name: columns.get(field.name, getattr(self, field.name)[rows]) for field in fields(self)})


def find_gaps(device: DeviceIntervals, low_ns: int, high_ns: int) -> Gaps:
    """The gaps in the work (rows in order) that meet the window; only the first and the last of all are cut to it."""
    first, last = union(*device.surely)
    # What is not known to have worked before the window may have run out of work there.
    start = np.append(np.min(device.start_low_ns, initial=low_ns), last)
    end = np.append(first, np.max(last, initial=high_ns))
    kept = (end > start) & (end > low_ns) & (start < high_ns)
    start, end = start[kept], end[kept]
    gap, begin, finish = cut(start, end, _changes(device))
    dry_low, dry_high = _ran_out_from(device, begin, start[gap]), _ran_out_until(device, begin, finish, start[gap])
    of, work = _may_follow(device, begin, finish)
    thread = np.append(device.thread, NONE)[work]
    low, high = (
        np.where(thread >= 0, np.append(column, NEVER)[work], NEVER) for column in (device.dispatched_low_ns, device.dispatched_high_ns)
    )
    return Gaps(gap[of], begin[of], finish[of], dry_low[of], dry_high[of], thread, low, high, work < len(device.rank))


def _changes(device: DeviceIntervals) -> Ints:
    """The instants at which it changes what the device may have done, where that is not known."""
    return np.zeros(0, dtype=np.int64) if device.is_exact else np.concatenate((*device.surely, *device.possibly))


def _ran_out_from(device: DeviceIntervals, begin: Ints, start: Ints) -> Ints:
    """The first instant at which the device may have run out of work: not before the begin of what surely had begun."""
    order = np.argsort(device.start_high_ns, kind="stable")
    latest = np.append(np.maximum.accumulate(device.start_low_ns[order]), LONG_AGO)
    return np.asarray(np.maximum(latest[np.searchsorted(device.start_high_ns[order], begin, side="right") - 1], start))


def _ran_out_until(device: DeviceIntervals, begin: Ints, finish: Ints, start: Ints) -> Ints:
    """The last instant at which the device may have run out of work, in gaps that began at `start`, for each of their stretches."""
    first, last = union(*device.possibly)
    ended = np.append(last, LONG_AGO)[np.searchsorted(last, begin, side="right") - 1]
    return np.where(containing(first, last, begin) >= 0, finish, np.maximum(ended, start))


def _may_follow(device: DeviceIntervals, begin: Ints, finish: Ints) -> tuple[Ints, Ints]:
    """Pairs of a stretch and a work that may be the first to begin after it; a number beyond the last work where none may."""
    low, high, over = device.start_low_ns, device.start_high_ns, device.end_high_ns
    begun = np.searchsorted(np.maximum.accumulate(np.minimum(high, over)), begin, side="right")
    later = np.searchsorted(low, finish)
    soonest = np.append(np.minimum.accumulate(high[::-1])[::-1], NEVER)[later]
    # It may be that none follows where none must.
    last = np.where(soonest == NEVER, len(low) + 1, np.maximum(np.searchsorted(low, soonest), later + 1))
    of, work = ranges(begun, last)
    kept = np.append(np.minimum(high, over), NEVER)[work] > begin[of]
    return of[kept], work[kept]


def explain(lanes: HostLanes, gaps: Gaps) -> pl.DataFrame:
    """The gaps cut into stretches of one cause: `gap`, `start_ns`, `end_ns`, `cause` (a code of this module), `thread` that it lies on,
    `launched_ns`: when the call that launches the gap's end returned. Where several causes may hold, a stretch has a row for each.
    """
    trainer = NONE if lanes.training is None else lanes.training
    walked = np.where(gaps.followed, gaps.thread, trainer)
    found = [nothing_idle()]
    for thread in np.unique(walked).tolist():
        mine = gaps.taken(np.flatnonzero(walked == thread))
        if thread < 0:
            code = np.where(mine.followed, NO_LAUNCH, UNNAMED)
            found.append(_frame(mine, np.arange(len(code)), mine.start_ns, mine.end_ns, code, np.full(len(code), NONE)))
        else:
            found.append(_walk(mine, lanes, lanes.lane(int(thread)), lanes.lane(trainer)))
    return _merged(pl.concat(found))


def nothing_idle() -> pl.DataFrame:
    """What `explain` gives where nothing is idle."""
    columns = ("gap", "start_ns", "end_ns", "cause", "thread", "launched_ns")
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))


def _walk(gaps: Gaps, lanes: HostLanes, lane: HostLane, trainer: HostLane) -> pl.DataFrame:
    gaps = _cases(gaps, lanes, lane, trainer)
    launched = gaps.launched_low_ns
    alone = lane.thread == trainer.thread
    edges = [lane.edges, np.clip(launched, gaps.start_ns, gaps.end_ns)]
    if not alone:
        edges += [trainer.edges, *lane.busy]
    of, begin, end = cut(gaps.start_ns, gaps.end_ns, np.concatenate(edges))
    named, by_lane = lane.named.at(begin), np.ones(len(of), dtype=np.bool_)
    dry = _ran_dry(lanes, lane, trainer, gaps.dry_low_ns, launched)[of]
    works = lane.own.hold(begin)
    if not alone:
        by_lane = lane.busy.hold(begin) | (named >= 0)
        named = np.where(by_lane, named, trainer.named.at(begin))
        works = np.where(by_lane, works, trainer.own.hold(begin))
    cause = np.where(gaps.followed[of], LAUNCH, UNNAMED)
    # A call that waits and allocates too, as cudaFree, is what the device ran dry in.
    own = works & (begin < launched[of]) & (begin >= lanes.returned_ns(dry))
    cause = np.where(dry >= 0, np.where(own, LAUNCH, dry + CALLS), cause)
    cause = np.where((begin < launched[of]) & (named >= 0), named, cause)
    return _frame(gaps, of, begin, end, cause, np.where(by_lane, lane.thread, trainer.thread))


def _cases(gaps: Gaps, lanes: HostLanes, lane: HostLane, trainer: HostLane) -> Gaps:
    """The gaps with a row for each case that makes a difference: of when the device ran out of work, and of when the launch returned."""
    if np.array_equal(gaps.dry_low_ns, gaps.dry_high_ns) and np.array_equal(gaps.launched_low_ns, gaps.launched_high_ns):
        return gaps
    # What the launching thread does matters while the training thread waits.
    busy = np.concatenate(lane.busy)
    busy = busy[trainer.waiting.at(busy) != NONE]
    edges = np.concatenate((*lane.waiting[:2], *trainer.waiting[:2], busy))
    of, dry, _ = cut(gaps.dry_low_ns, gaps.dry_high_ns + 1, edges)
    gaps = gaps.taken(of, dry_low_ns=dry, dry_high_ns=dry)
    low, high = gaps.launched_low_ns, gaps.launched_high_ns
    returned = lanes.returned_ns(_ran_dry(lanes, lane, trainer, dry, high))
    launched = np.concatenate((low, high, np.clip(returned, low, high)))
    return gaps.taken(np.tile(np.arange(len(low)), 3), launched_low_ns=launched, launched_high_ns=launched)


def _ran_dry(lanes: HostLanes, lane: HostLane, trainer: HostLane, starts: Ints, launched: Ints) -> Ints:
    """The waiting call in which the host stood when each gap began, and that returned before the gap's end was launched; NONE for none."""
    dry = lane.waiting.at(starts)
    if lane.thread != trainer.thread:
        # A call of the training thread explains nothing while the launching thread works by itself.
        dry = np.where((dry < 0) & ~lane.busy.hold(starts), trainer.waiting.at(starts), dry)
    return np.asarray(np.where(lanes.returned_ns(dry) <= launched, dry, NONE))


def _frame(gaps: Gaps, of: Ints, start_ns: Ints, end_ns: Ints, cause: Ints, thread: Ints) -> pl.DataFrame:
    columns = {"gap": gaps.gap[of], "start_ns": start_ns, "end_ns": end_ns, "cause": cause, "thread": thread}
    columns["launched_ns"] = gaps.launched_low_ns[of]
    return pl.DataFrame({name: np.asarray(values, dtype=np.int64) for name, values in columns.items()})


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    """What touches, of one gap and one cause, as one row, on the thread of the first of them."""
    rows = rows.sort("start_ns", maintain_order=True)
    before = (("gap", "gap"), ("cause", "cause"), ("start_ns", "end_ns"))
    apart = pl.any_horizontal(pl.col(name) != pl.col(other).shift(1) for name, other in before)
    groups = rows.with_columns(apart.fill_null(True).cum_sum().alias("run")).group_by("run", maintain_order=True)
    first = (pl.col(name).first() for name in ("gap", "start_ns", "cause", "thread", "launched_ns"))
    return groups.agg(*first, pl.col("end_ns").last()).drop("run")
