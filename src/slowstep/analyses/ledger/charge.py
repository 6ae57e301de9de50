"""Charges time: to what the host did where it executes synchronously, else to what the device did, and where that idled to what held it up.

An instant in which the device worked belongs to what of that has the highest rank. An idle one is walked on the thread that dispatched the
end of the gap (`idle.py`). Where it is not known whether the device worked, all that the instant may belong to is kept: those parts have
bounds, and the time itself is the part `unknown`, never the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import numbered
from slowstep.analyses.ledger.idle import explain, find_gaps, nothing_idle
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.steps.steps import Floats
from slowstep.part_words import parts_in_order
from slowstep.parts import UNKNOWN, Part, PartKind
from slowstep.timeline.intervals import Ints, containing, cut, distinct, ranges, union
from slowstep.timeline.spine import NO_LABELS, NONE, DeviceIntervals, HostLanes

# A ledger has a number for each part and step: 64 MB of them. Ranges that have the step's number in their name are as many as there are
# steps, so that without a limit memory would grow with the square of the steps.
MOST_NUMBERS: Final = 8_000_000
# The code of what a device did is this less its rank; those of a host's labels and of `idle.py` are larger.
DEVICE: Final = -10
# Begins and ends.
StepEdges = tuple[Ints, Ints]
# What may be charged: begins, ends and codes.
Options = tuple[Ints, Ints, Ints]
_NONE: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Charged:
    """Stretches of steps, in order and without overlap, and the codes of what each may belong to: one where that is known.

    Of those `stretch` and `code` have a row each.
    """

    step: Ints
    start_ns: Ints
    end_ns: Ints
    stretch: Ints
    code: Ints

    @property
    def length_ns(self) -> Floats:
        """The length of each stretch."""
        return (self.end_ns - self.start_ns).astype(np.float64)

    @property
    def times(self) -> pl.DataFrame:
        """The columns `start_ns` and `end_ns` of the stretches."""
        return pl.DataFrame({"start_ns": self.start_ns, "end_ns": self.end_ns})

    @property
    def is_known(self) -> bool:
        """Whether each stretch belongs to one thing."""
        return len(self.stretch) == len(self.step)


def charge(steps: StepEdges, lanes: HostLanes, device: DeviceIntervals | None = None) -> tuple[Charged, pl.DataFrame]:
    """Charge the time of steps, which come one after the other; without a device to what the training thread did.

    With the table of `idle.explain`, which is not cut to steps; empty without a device.
    """
    if device is None:
        named = NO_LABELS if lanes.training is None else lanes.lane(lanes.training).named
        return in_steps(steps, named), nothing_idle()
    device = device.completed(NONE if lanes.training is None else lanes.training).ordered()
    idle = explain(lanes, find_gaps(device, int(steps[0][0]), int(steps[1][-1])))
    held = (idle[name].to_numpy() for name in ("start_ns", "end_ns", "cause"))
    start, end, code = (np.concatenate(both) for both in zip(worked(device), held, strict=True))
    return in_steps(steps, (start, end, code)), idle


def worked(device: DeviceIntervals) -> Options:
    """What the device (rows in order) did; and what it may have done while nothing of higher rank surely ran."""
    ranks = np.unique(device.rank).tolist()
    surely = {rank: _union(device, rank, device.surely) for rank in ranks}
    possibly = surely if device.is_exact else {rank: _union(device, rank, device.possibly) for rank in ranks}
    edges = distinct(_NONE, *(side for each in (surely, possibly) for both in each.values() for side in both))
    at, until = edges[:-1], edges[1:]
    best = np.full(len(at), np.iinfo(np.int64).max)
    for rank in reversed(ranks):
        best = np.where(containing(*surely[rank], at) >= 0, rank, best)
    found = [(np.flatnonzero(best == rank), rank) for rank in ranks]
    if possibly is not surely:
        found += [(np.flatnonzero((rank < best) & (containing(*possibly[rank], at) >= 0)), rank) for rank in ranks]
    kept = np.concatenate([_NONE, *(rows for rows, _ in found)])
    code = np.concatenate([_NONE, *(np.full(len(rows), DEVICE - rank) for rows, rank in found)])
    return at[kept], until[kept], code


def _union(device: DeviceIntervals, rank: int, bounds: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    mine = device.rank == rank
    return union(bounds[0][mine], bounds[1][mine])


def in_steps(steps: StepEdges, options: Options) -> Charged:
    """What may be charged, cut to the steps, and all that concerns one instant brought together."""
    of, start, end = cut(options[0], options[1], np.concatenate(steps))
    step = containing(*steps, start)
    kept = np.flatnonzero(step >= 0)
    kept = kept[np.argsort(start[kept], kind="stable")]
    start, end, step, code = start[kept], end[kept], step[kept], options[2][of[kept]]
    if bool(np.all(end[:-1] <= start[1:])):
        return Charged(step, start, end, np.arange(len(start)), code)
    edges = distinct(start, end)
    option, piece = ranges(np.searchsorted(edges, start), np.searchsorted(edges, end))
    number, first, stretch = np.unique(piece, return_index=True, return_inverse=True)
    return Charged(step[option[first]], edges[number], edges[number + 1], stretch, code[option])


def charged_ledger(charged: Charged, parts_of: Callable[[Ints], pl.DataFrame], steps: int) -> Ledger:
    """The ledger of so many steps. What may belong to several parts is `UNKNOWN`, and within the bounds of those.

    `parts_of` has a row of a part (the columns COLUMNS) for each of some codes, which are in order.
    """
    codes, at = np.unique(charged.code, return_inverse=True)
    parts, number = numbered(parts_of(codes))
    parts, number = _fewer(charged, parts, number, at, MOST_NUMBERS // max(steps, 1))
    rows = _Rows(charged, parts, steps)
    # Several codes may be one part: that is no doubt.
    pairs = charged.stretch * len(parts) + number[at]
    stretch, part = np.divmod(pairs if charged.is_known else np.unique(pairs), max(len(parts), 1))
    doubtful = np.bincount(stretch, minlength=len(charged.step))[stretch] > 1
    low = rows.summed(stretch[~doubtful], part[~doubtful])
    if not doubtful.any():
        return rows.ledger(low)
    high = low + rows.summed(stretch[doubtful], part[doubtful])
    unknown = np.unique(stretch[doubtful])
    return rows.ledger(low, high, rows.summed(unknown, np.zeros(len(unknown), dtype=np.int64))[0])


def _fewer(charged: Charged, parts: list[Part], number: Ints, at: Ints, most: int) -> tuple[list[Part], Ints]:
    """The parts, and the number of each code's part (`at` is the code's of each row of `charged`), with those that may hold least as one
    of each stage where there are more than `most`.
    """
    if len(parts) <= most:
        return parts, number
    held = np.bincount(number[at], weights=charged.length_ns[charged.stretch], minlength=len(parts))
    kept = set(np.argsort(-held, kind="stable")[:most].tolist())
    fewer = [part if row in kept else Part(part.stage, PartKind.SMALL_PARTS) for row, part in enumerate(parts)]
    number_of = {part: row for row, part in enumerate(dict.fromkeys(fewer))}
    return list(number_of), np.array([number_of[part] for part in fewer])[number]


class _Rows:
    """Sums of stretches by part and step."""

    def __init__(self, charged: Charged, parts: list[Part], steps: int) -> None:
        self._parts, self._step, self._shape = parts, charged.step, (len(parts), steps)
        self._length = charged.length_ns

    def summed(self, stretch: Ints, part: Ints) -> Floats:
        """The lengths of some stretches, each for a part (by number). Shape (parts, steps)."""
        cells = part * self._shape[1] + self._step[stretch]
        sums = np.bincount(cells, weights=self._length[stretch], minlength=self._shape[0] * self._shape[1])
        return sums.astype(np.float64).reshape(self._shape)

    def ledger(self, low: Floats, high: Floats | None = None, unknown: Floats | None = None) -> Ledger:
        """The ledger of what each part surely took, may have taken, and what belongs to none for sure (shape (steps,))."""
        seen = np.flatnonzero((low if high is None else high).any(axis=1))
        rows = {self._parts[row]: row for row in seen.tolist()}
        parts = parts_in_order(rows)
        order = [rows[part] for part in parts]
        if high is None or unknown is None:
            return Ledger(parts=tuple(parts), ns=low[order])
        none = np.zeros((1, self._shape[1]))
        rest = unknown[np.newaxis]
        return Ledger(
            parts=(*parts, UNKNOWN),
            ns=np.vstack((low[order], rest)),
            low=np.vstack((low[order], none)),
            high=np.vstack((high[order], rest)),
        )
