"""Whether intervals nest, as those of one thread should."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.timeline.intervals import Flags, Ints

# Rows that are Python numbers at one time.
_ROWS: Final = 1 << 14
# Looks at open stretches, per stretch, beyond which they are judged in the way that takes more memory, and as long however many cross.
_MOST_LOOKS: Final = 8


def crossing(thread: Ints, start_ns: Ints, end_ns: Ints) -> Flags:
    """Which stretches overlap another one of their thread without one holding the other; all arrays have shape (n,).

    Stretches that only touch do not cross, nor do two that begin or end together, nor empty ones.
    """
    # By thread, then by time, outer ones before those that begin together with them.
    order = np.lexsort((~end_ns, start_ns, thread)).astype(np.uint32)
    found = _sweep(thread, start_ns, end_ns, order)
    return _by_sets(thread, start_ns, end_ns, order) if found is None else found


def _sweep(thread: Ints, start_ns: Ints, end_ns: Ints, order: NDArray[np.uint32]) -> Flags | None:
    """By looking at the stretches one after the other: those that are open are kept in the order of their ends, the next to end last. None
    where so many cross that this would take too long.
    """
    found = bytearray(len(order))
    ends: list[int] = []
    rows: list[int] = []
    here, looks = None, 0
    for at in range(0, len(order), _ROWS):
        some = order[at : at + _ROWS]
        columns = (column.tolist() for column in (some, thread[some], start_ns[some], end_ns[some]))
        for row, of_thread, start, end in zip(*columns, strict=True):
            if of_thread != here:
                here, ends, rows = of_thread, [], []
            while ends and ends[-1] <= start:
                ends.pop()
                rows.pop()
            if not ends or ends[-1] >= end:
                # Nearly always; an empty stretch is gone with the next one.
                ends.append(end)
                rows.append(row)
                continue
            if end <= start:
                continue
            place = len(ends)
            while place and ends[place - 1] < end:
                place -= 1
                looks += 1
                found[rows[place]] = found[row] = 1
            if looks > _MOST_LOOKS * len(order):
                return None
            ends.insert(place, end)
            rows.insert(place, row)
    return np.frombuffer(found, dtype=np.bool_)


def _by_sets(thread: Ints, start_ns: Ints, end_ns: Ints, order: NDArray[np.uint32]) -> Flags:
    """A stretch crosses nothing if and only if the same stretches are open just before it begins and just after it ends. Each is given a
    random 64-bit number, so that the exclusive or of those open stands for the set of them: two different sets are taken for the same
    with a chance of about 2^-64.
    """
    found = np.zeros(len(order), dtype=np.bool_)
    # An empty stretch would close before it opens; it crosses nothing.
    lasting = order[end_ns[order] > start_ns[order]]
    for rows in np.split(lasting, np.flatnonzero(np.diff(thread[lasting])) + 1):
        count = len(rows)
        key = np.random.default_rng(0).integers(0, 2**63, count, dtype=np.int64)
        # A stable sort: at one instant closings come before openings, inner closings before outer ones, outer openings before inner ones.
        edges = np.argsort(np.concatenate((end_ns[rows][::-1], start_ns[rows])), kind="stable")
        opens = edges >= count
        index = np.where(opens, edges - count, count - 1 - edges)
        state: NDArray[Any] = np.bitwise_xor.accumulate(key[index])
        before, after = np.zeros_like(key), np.zeros_like(key)
        before[index[opens]] = state[opens] ^ key[index[opens]]
        after[index[~opens]] = state[~opens]
        found[rows] = before != after
    return found
