"""How much of each step went into receiving the training's batches, starting what makes them and ending it. Pure."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.record.writing import format as fmt

Records = NDArray[Any]

# What a recording tells of the input, on the thread that asks for it; STEP records are taken apart before.
KINDS: Final = (fmt.WAIT, fmt.START, fmt.SHUTDOWN)


def input_times(arms: Records, spans: Records) -> NDArray[np.int64]:
    """Ns by step, shape (steps,): of ARM records in time order, and of records of KINDS. Steps that end an epoch hold both its iterators.

    An iterator that gave batches in one step only is no input of the training: a validation reads its own from end to end between two
    updates.
    """
    found = np.zeros(len(arms), dtype=np.int64)
    if not len(arms) or not len(spans):
        return found
    step = np.searchsorted(arms["t1"], spans["t1"])
    here = (step < len(arms)) & (spans["thread"] == arms["thread"][0])
    spans, step = spans[here], step[here]
    mine = spans["a"] == fmt.NO_ITERATOR
    mine |= np.isin(spans["a"], _of_several_steps(spans, step))
    spans, step = spans[mine], step[mine]
    began = np.maximum(spans["t0"], arms["t0"][step])
    length_ns = np.where(spans["t1"] > began, spans["t1"] - began, 0)
    np.add.at(found, step, length_ns.astype(np.int64))
    return found


def _of_several_steps(spans: Records, step: NDArray[np.int64]) -> NDArray[np.int64]:
    """The iterators that gave batches in more than one step."""
    gave = (spans["kind"] == fmt.WAIT) & ((spans["flags"] & fmt.END) == 0)
    pairs = np.unique(np.column_stack([spans["a"][gave], step[gave]]), axis=0)
    iterators, steps = np.unique(pairs[:, 0], return_counts=True)
    return np.asarray(iterators[steps > 1], dtype=np.int64)
