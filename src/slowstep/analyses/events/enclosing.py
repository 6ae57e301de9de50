"""Which stretch of a host thread encloses which: parents of nested stretches, and the innermost one around an instant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from slowstep.timeline.intervals import Ints, RowNumbers

PIECE: Final = 1 << 17


class Nesting:
    """The nesting of stretches of host threads, whatever their order.

    `threads`, `start_ns`, `end_ns`: the stretches, shape (n,) each. Those of one thread nest; where a broken trace lets two overlap
    otherwise, the one that began later counts as lying inside as long as both are open. A stretch without length lasts 1 ns.
    """

    def __init__(self, threads: Ints, start_ns: Ints, end_ns: Ints) -> None:
        start, end = start_ns.astype(np.int64, copy=False), np.maximum(end_ns, start_ns + 1).astype(np.int64, copy=False)
        # All threads on one axis, one after the other, so that each question is one search over all of them. Each takes up its own time
        # only: one event with an impossible time would else push all threads beyond 63 bits.
        self._threads = np.unique(threads)
        self._low, self._high = np.full(len(self._threads), np.iinfo(np.int64).max), np.full(len(self._threads), np.iinfo(np.int64).min)
        for rows in pieces_of(len(start)):
            lane = np.searchsorted(self._threads, threads[rows])
            np.minimum.at(self._low, lane, start[rows])
            np.maximum.at(self._high, lane, end[rows])
        self._offset = np.append(0, np.cumsum(self._high - self._low + 2)[:-1]) if len(start) else np.zeros(0, dtype=np.int64)
        self._order: RowNumbers = np.lexsort((~end, start, threads)).astype(np.int32)
        self._starts, ends = np.empty_like(start), np.empty_like(start)
        for rows in pieces_of(len(start)):
            own = self._order[rows]
            self._starts[rows] = self._axis(threads[own], start[own])
            ends[rows] = self._axis(threads[own], end[own])
        del end
        levels = _levels(self._starts, ends)
        # Lengths instead of ends: few traces hold a stretch of more than four seconds.
        ends -= self._starts
        self._lengths = ends.astype(np.uint32) if int(ends.max(initial=0)) < 2**32 else ends
        self._levels: list[RowNumbers] | None = levels
        self._parents = _parents(levels, len(start))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def parents(self) -> RowNumbers:
        """Index of the stretch around each stretch, shape (n,); -1 where there is none."""
        found = np.full(len(self._order), -1, dtype=np.int32)
        inside = self._parents >= 0
        found[self._order[inside]] = self._order[self._parents[inside]]
        return found

    def levels(self) -> Iterator[RowNumbers]:
        """The indices of the stretches of each level, outermost first: a parent always comes before what it encloses."""
        levels = _levels(self._starts, self._starts + self._lengths) if self._levels is None else self._levels
        for level in levels:
            yield self._order[level]

    def forget_levels(self) -> None:
        """Make room: `levels` and `inherit` find them again, and take longer."""
        self._levels = None

    def innermost(self, threads: Ints, times_ns: Ints) -> Ints:
        """Index of the innermost stretch that is open at each instant of a thread, shape (m,); -1 where none is."""
        at = self._axis(threads, times_ns)
        found = np.searchsorted(self._starts, at, side="right") - 1
        searching = np.flatnonzero(found >= 0)
        while len(searching):
            searching = searching[self._end(found[searching]) <= at[searching]]
            found[searching] = self._parents[found[searching]]
            searching = searching[found[searching] >= 0]
        open_ = found >= 0
        found[open_] = self._order[found[open_]]
        return found

    def inherit(self, own: Ints | RowNumbers, *, outermost: bool = False) -> RowNumbers:
        """For each stretch the value of the innermost (or outermost) one of itself and those around it that has one; -1 is none.

        `own`: rows or other small whole numbers, shape (n,), -1 where a stretch has no value itself. Returns shape (n,).
        """
        values, parents = own.astype(np.int32), self.parents
        for level in self.levels():
            inside = level[parents[level] >= 0]
            above = values[parents[inside]]
            missing = above >= 0 if outermost else values[inside] < 0
            values[inside[missing]] = above[missing]
        return values

    def sums(self, own: Ints) -> Ints:
        """For each stretch the sum of the values, shape (n,), of itself and of those that begin inside it."""
        before = np.zeros(len(own) + 1, dtype=np.int64)
        for rows in pieces_of(len(own)):
            before[rows.start + 1 : rows.stop + 1] = before[rows.start] + np.cumsum(own[self._order[rows]])
        found = np.empty(len(own), dtype=np.int64)
        for rows in pieces_of(len(own)):
            last = np.searchsorted(self._starts, self._end(rows), side="left")
            found[self._order[rows]] = before[last] - before[rows]
        return found

    def _end(self, at: Ints | slice) -> Ints:
        """Where stretches at these positions end on the axis."""
        ends: Ints = self._starts[at] + self._lengths[at]
        return ends

    def _axis(self, threads: Ints, times_ns: Ints) -> Ints:
        """Where instants lie on the axis; before all of it for threads without a stretch."""
        if not len(self._threads):
            return np.full(len(times_ns), -1, dtype=np.int64)
        lane = np.minimum(np.searchsorted(self._threads, threads), len(self._threads) - 1)
        at = self._offset[lane] + np.clip(times_ns, self._low[lane] - 1, self._high[lane]) - self._low[lane]
        return np.asarray(np.where(self._threads[lane] == threads, at, -1), dtype=np.int64)


def _levels(starts: Ints, ends: Ints) -> list[RowNumbers]:
    """Positions by level of stretches sorted by start, longer ones first."""
    depth = np.empty(len(starts), dtype=np.int32)
    ended = np.sort(ends)
    for rows in pieces_of(len(starts)):
        depth[rows] = np.arange(rows.start, rows.stop) - np.searchsorted(ended, starts[rows], side="right")
    del ended
    by_depth = np.argsort(depth, kind="stable").astype(np.int32)
    cuts = np.append(0, np.cumsum(np.bincount(depth))) if len(depth) else np.zeros(1, dtype=np.int64)
    return [by_depth[first:last] for first, last in itertools.pairwise(cuts)]


def _parents(levels: list[RowNumbers], count: int) -> RowNumbers:
    """The position around each; -1 where there is none."""
    parents = np.full(count, -1, dtype=np.int32)
    for outer, inner in itertools.pairwise(levels):
        parents[inner] = outer[np.searchsorted(outer, inner) - 1]
    return parents


def pieces_of(count: int) -> Iterator[slice]:
    """So many rows in pieces: what is computed of all at once would take several times their own room."""
    for first in range(0, count, PIECE):
        yield slice(first, min(first + PIECE, count))
