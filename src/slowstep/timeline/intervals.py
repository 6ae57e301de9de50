"""Interval algebra on nanosecond arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
# Numbers of rows: a trace has less than 2^31.
RowNumbers = NDArray[np.int32]


def innermost(start_ns: Ints, end_ns: Ints, cuts_ns: Ints) -> tuple[Ints, Ints]:
    """Divide time among nested spans: each instant belongs to the innermost one that is open.

    `start_ns`, `end_ns`: the spans, shape (n,). `cuts_ns`: further instants at which to cut; the first and last bound the result.
    Returns the edges, shape (m + 1,), and for each of the m stretches between them the index of its span, -1 where none is open.
    A span that began later counts as the inner one; of two that began together, the shorter.
    """
    low, high = int(cuts_ns[0]), int(cuts_ns[-1])
    inside = (end_ns > low) & (start_ns < high) & (end_ns > start_ns)
    index = np.flatnonzero(inside)
    starts, ends = np.clip(start_ns[index], low, high), np.clip(end_ns[index], low, high)
    edges = distinct(starts, ends, cuts_ns)
    owner = np.full(len(edges) - 1, -1, dtype=np.int64)
    order = np.lexsort((-end_ns[index], start_ns[index]))
    first, last = np.searchsorted(edges, starts[order]), np.searchsorted(edges, ends[order])
    span = index[order]
    # Most spans are cut by no other: what begins in them lies beside them, so they come last, and all at once.
    whole = (last - first == 1) & (start_ns[span] >= low)
    for begin, stop, number in zip(first[~whole].tolist(), last[~whole].tolist(), span[~whole].tolist(), strict=True):
        owner[begin:stop] = number
    owner[first[whole]] = span[whole]
    return edges, owner


def distinct(*instants: Ints) -> Ints:
    """All of them in order, each once. Of parts in order it is many times as fast as numpy's unique, which hashes."""
    edges = np.sort(np.concatenate(instants), kind="stable")
    return edges[np.append(True, np.diff(edges) > 0)] if len(edges) else edges


def laid_over(edges: Ints, owner: Ints, start_ns: Ints, end_ns: Ints, first: int) -> tuple[Ints, Ints]:
    """Such a division with further spans laid over it, in which nothing lies: sorted, without overlap, numbered from `first`."""
    low, high = edges[0], edges[-1]
    cut = distinct(edges, np.clip(start_ns, low, high), np.clip(end_ns, low, high))
    under = owner[np.searchsorted(edges, cut[:-1], side="right") - 1]
    over = containing(start_ns, end_ns, cut[:-1])
    return cut, np.where(over >= 0, over + first, under)


def overlap_ns(start_ns: Ints, end_ns: Ints, other_start_ns: Ints, other_end_ns: Ints) -> Ints:
    """Length that two intervals share, elementwise; 0 where they do not meet."""
    shared = np.minimum(end_ns, other_end_ns) - np.maximum(start_ns, other_start_ns)
    return np.asarray(np.maximum(shared, 0))


def covered_ns(start_ns: Ints, end_ns: Ints, at_ns: Ints) -> NDArray[np.float64]:
    """How much of the time before each instant of `at_ns` is covered by the intervals, which are sorted and do not overlap."""
    if len(start_ns) == 0:
        return np.zeros(len(at_ns))
    edges = np.empty(2 * len(start_ns))
    edges[0::2], edges[1::2] = start_ns, end_ns
    total = np.empty_like(edges)
    done: NDArray[Any] = np.cumsum(end_ns - start_ns)
    total[0::2], total[1::2] = np.concatenate(([0], done[:-1])), done
    return np.interp(at_ns, edges, total)


def union(start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """The same instants as disjoint intervals in order of time; intervals that touch become one, empty ones are left out."""
    kept = end_ns > start_ns
    # Events mostly last and are in order: what need not be copied is not.
    start, end = (start_ns, end_ns) if bool(kept.all()) else (start_ns[kept], end_ns[kept])
    if bool((start[1:] < start[:-1]).any()):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.append(True, start[1:] > reach[:-1])[: len(start)]
    return start[first], reach[np.append(first[1:], True)[: len(start)]]


def containing(start_ns: Ints, end_ns: Ints, at_ns: Ints) -> Ints:
    """The index of the interval in which each instant of `at_ns` lies, -1 for none; the intervals are sorted and do not overlap."""
    if len(start_ns) == 0:
        return np.full(len(at_ns), -1, dtype=np.int64)
    index = np.searchsorted(start_ns, at_ns, side="right") - 1
    return np.where((index >= 0) & (at_ns < end_ns[index]), index, -1)


def pieces(start_ns: Ints, end_ns: Ints, cuts_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut intervals, sorted and not overlapping, at instants: of each piece its interval's index, its start and its end; none is empty."""
    edges = distinct(start_ns, end_ns, cuts_ns)
    owner = containing(start_ns, end_ns, edges[:-1])
    inside = owner >= 0
    return owner[inside], edges[:-1][inside], edges[1:][inside]


def ranges(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Pairs of a row and each whole number from its first to before its last, row by row."""
    count = last - first
    row = np.repeat(np.arange(len(first)), count)
    return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def cut(start_ns: Ints, end_ns: Ints, cuts_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Intervals, which may overlap, cut at some instants: of each piece the number of its interval, its start and its end.

    They come interval by interval. Empty intervals have one piece.
    """
    cuts = distinct(cuts_ns)
    first, last = np.searchsorted(cuts, start_ns, side="right"), np.searchsorted(cuts, end_ns, side="left")
    last = np.maximum(last, first)
    of, piece = ranges(first, last + 1)
    reach = np.append(cuts, 0)
    begin = np.where(piece == first[of], start_ns[of], reach[piece - 1])
    return of, begin, np.where(piece == last[of], end_ns[of], reach[piece])


def flattened(start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Divide time among the spans of one thread: start, end and innermost span of each stretch in which a span is open, in order.

    As `innermost`, in linear time for spans that nest; spans that overlap without nesting go the slower way.
    """
    index = np.flatnonzero(end_ns > start_ns)
    if len(index) == 0:
        return index, index, index
    index = index[outer_first(start_ns[index], end_ns[index])]
    nested = _nested(start_ns[index], end_ns[index])
    if nested is None:
        low, high = int(start_ns[index].min()), int(end_ns[index].max())
        edges, owner = innermost(start_ns, end_ns, np.array([low, high], dtype=np.int64))
    else:
        edges, owner = nested[0], np.where(nested[1] >= 0, index[nested[1]], -1)
    known = (owner >= 0) & (edges[1:] > edges[:-1])
    return edges[:-1][known], edges[1:][known], owner[known]


def outer_first(start_ns: Ints, end_ns: Ints) -> Ints:
    """The order of spans by their start, of those that begin together by their end, the last one first.

    Of spans that are nearly in that order, as in tables of events, it takes a part of the time of a sort by both.
    """
    order = np.argsort(start_ns, kind="stable")
    ordered = start_ns[order]
    together = np.append(ordered[1:] == ordered[:-1], False)
    rows = np.flatnonzero(together | np.append(False, together[:-1])) if len(order) else order
    tied = order[rows]
    order[rows] = tied[np.lexsort((-end_ns[tied], ordered[rows]))]
    return order


def _nested(start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints] | None:
    """Edges and the innermost of spans in order of start, outer ones first; None where they do not nest.

    Spans open and close like brackets: what closes leaves the last one open that is one level up.
    """
    count = len(start_ns)
    # Numbers of spans are short, and what is done with goes at once: of a trace's events this takes the most room of all analyses.
    position = np.arange(count, dtype=np.int32)
    times = np.concatenate((end_ns[::-1], start_ns))
    # A stable sort: at one instant ends come before starts, inner ends before outer ones, outer starts before inner ones.
    order = np.argsort(times, kind="stable")
    times = times[order]
    opens = order >= count
    span = np.concatenate((position[::-1], position))[order]
    del order
    depth = np.cumsum(np.where(opens, np.int8(1), np.int8(-1)), dtype=np.int32)
    level = np.where(opens, depth, depth + 1)
    # Numbers of two bytes are sorted without being compared; no thread is so deep.
    paired = np.argsort(level.astype(np.int16) if int(level.max()) < 2**15 else level, kind="stable")
    places = paired[0::2].copy()
    if not bool(np.all(span[places] == span[paired[1::2]])):
        return None
    del paired
    outer = _outer(span[places], level[places], places)
    return times, np.where(opens, span, np.where(depth > 0, outer[span], -1))[:-1]


def _outer(span: RowNumbers, level: RowNumbers, places: Ints) -> RowNumbers:
    """The span around each, where it is not on the lowest level; they are given by level, then by time, the `places` at which they open."""
    # One level up, the last one that opened before is around.
    size = 2 * len(span) + 1
    # Of NumPy 1 a product of short numbers and one long one is short.
    keys = level.astype(np.int64) * size + places
    above = np.searchsorted(keys, keys - size) - 1
    outer = np.empty_like(span)
    outer[span] = span[np.maximum(above, 0)]
    return outer
