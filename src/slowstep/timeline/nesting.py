"""Whether stretches of time nest, as those of one thread should."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.timeline.intervals import Ints


def crossing(thread: Ints, start_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Which stretches overlap another one of their thread without one holding the other; all arrays have shape (n,).

    Stretches that only touch do not cross, nor do two that begin or end together. A stretch crosses nothing if and only if the same
    stretches are open just before it begins and just after it ends. Each is given a random 64-bit number, so that the exclusive or of
    those open stands for the set of them: two different sets are taken for the same with a chance of about 2^-64.
    """
    count = len(start_ns)
    if count == 0:
        return np.zeros(0, dtype=bool)
    key = np.random.default_rng(0).integers(0, 2**63, count, dtype=np.int64)
    index = np.arange(count)
    # At one instant: closings before openings, inner closings before outer ones, outer openings before inner ones.
    edges = pl.DataFrame(
        {
            "thread": np.concatenate((thread, thread[::-1])),
            "time": np.concatenate((start_ns, end_ns[::-1])),
            "opens": np.repeat((True, False), count),
            "other": -np.concatenate((end_ns, start_ns[::-1])),
            "index": np.concatenate((index, index[::-1])),
        }
    )
    # An empty stretch would close before it opens; it crosses nothing.
    empty = np.concatenate((start_ns == end_ns, (start_ns == end_ns)[::-1]))
    edges = edges.filter(pl.Series(~empty)).sort("thread", "time", "opens", "other", maintain_order=True)
    return _differs(edges["index"].to_numpy(), edges["opens"].to_numpy(), key)


def _differs(index: Ints, opens: NDArray[np.bool_], key: Ints) -> NDArray[np.bool_]:
    """Whether the sets open before and after each stretch differ. Every stretch closes on its own thread, so that threads may follow."""
    state: NDArray[Any] = np.bitwise_xor.accumulate(key[index])
    before, after = np.zeros_like(key), np.zeros_like(key)
    before[index[opens]] = state[opens] ^ key[index[opens]]
    after[index[~opens]] = state[~opens]
    return np.asarray(before != after)
