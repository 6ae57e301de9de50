"""Exact arithmetic with unions of intervals: how much of each interval some others cover, device by device."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.timeline.intervals import Ints, union


def edges_of(rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """Begins and ends of the rows."""
    return rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()


def merged(rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """Begins and ends of the disjoint stretches in which any of the rows (`start_ns`, `end_ns`) ran, in order of time."""
    return union(*edges_of(rows))


class Union:
    """The union of intervals, each of one device (or thread): an instant that several cover counts once.

    `keys`, `start_ns`, `end_ns`: shape (n,) each, in any order; keys are any whole numbers. Sums are whole nanoseconds.
    """

    def __init__(self, keys: Ints, start_ns: Ints, end_ns: Ints) -> None:
        longer = end_ns > start_ns
        start, end = start_ns[longer], end_ns[longer]
        self._keys = np.unique(keys[longer].astype(np.int64))
        keys = np.searchsorted(self._keys, keys[longer])
        self._low = int(start.min()) if len(start) else 0
        self._span = int(end.max()) - self._low + 1 if len(end) else 1
        start, end = self._axis(keys, start), self._axis(keys, end)
        order = np.argsort(start, kind="stable")
        start, reach = start[order], np.maximum.accumulate(end[order]) if len(order) else end
        opens = np.append(True, start[1:] > reach[:-1]) if len(start) else np.empty(0, dtype=np.bool_)
        self.starts = start[opens]
        self.ends = reach[np.append(opens[1:], True)] if len(start) else reach
        self._before = np.append(0, np.cumsum(self.ends - self.starts))

    def inside(self, keys: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
        """How much of each interval, shape (m,), the union covers."""
        if not len(self._keys):
            return np.zeros(len(keys), dtype=np.int64)
        numbers = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        covered = self._until(numbers, np.maximum(end_ns, start_ns)) - self._until(numbers, start_ns)
        return np.where(self._keys[numbers] == keys, covered, 0)

    def _until(self, keys: Ints, times_ns: Ints) -> Ints:
        at = self._axis(keys, np.clip(times_ns, self._low, self._low + self._span - 1))
        found = np.searchsorted(self.starts, at, side="right")
        last = np.maximum(found - 1, 0)
        part = np.minimum(at, self.ends[last]) - self.starts[last]
        return np.asarray(np.where(found > 0, self._before[last] + part, 0))

    def _axis(self, keys: Ints, times_ns: Ints) -> Ints:
        return np.asarray(keys * self._span + (times_ns - self._low), dtype=np.int64)
