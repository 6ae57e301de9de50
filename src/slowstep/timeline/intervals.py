"""Interval algebra on nanosecond arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


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
    edges = np.sort(np.concatenate((starts, ends, cuts_ns)))
    # Ten times as fast as numpy's unique, which hashes, for the millions of edges of a long recording.
    edges = edges[np.append(True, np.diff(edges) > 0)]
    owner = np.full(len(edges) - 1, -1, dtype=np.int64)
    order = np.lexsort((-end_ns[index], start_ns[index]))
    first, last = np.searchsorted(edges, starts[order]), np.searchsorted(edges, ends[order])
    for begin, stop, span in zip(first.tolist(), last.tolist(), index[order].tolist(), strict=True):
        owner[begin:stop] = span
    return edges, owner


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
