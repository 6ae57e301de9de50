"""Steps that are seldom and so long that one decides what its block takes: a validation, a checkpoint, a stall of the machine. Pure.

A few of them fall on the arms by chance, and a gain of a few percent drowns in that: a validation of 3 s in every 500 steps of 8 ms, met
three times by one arm and once by the next. What such a step takes besides its input is no affair of most levers. So it is spread evenly
over all arms of its round: means stay what they were, it counts with all that it costs, and which arm it hit no longer matters. Rounds
differ as before, so that intervals still know how seldom it came.

Its input stays where it was, since that is what a lever may have removed, and levers that leave out calls, or change how many there are,
keep the long steps that they met.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# What comes in every other block, or more often, is met by all arms, and is no matter of chance.
SELDOM: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class LongSteps:
    """So many blocks had them; what they took beyond usual steps and their input, at most in one block and as a share of all the time."""

    blocks: int
    most_ns: float
    share: float

    def gain_without(self, gain: float) -> float:
        """What a gain would be if the lever took them away, too: with m of the time as it is, the lever has m / gain, theirs among it."""
        left = 1 / gain - self.share
        return 1 / left if left > 0 else math.inf


def excess_of_long_steps(ns: Ints, input_ns: Ints, arm: Ints, block_steps: int) -> Floats:
    """By counted step: ns beyond its arm's usual step, less input, where that is as much as a whole block takes in the slowest arm; else 0.

    All of shape (steps,).
    """
    other = np.maximum(ns - input_ns, 0).astype(np.float64)
    usual = np.zeros(len(ns))
    slowest = 0.0
    for which in np.unique(arm):
        mine = arm == which
        usual[mine] = np.median(other[mine])
        slowest = max(slowest, float(np.median(ns[mine])))
    excess = other - usual
    return np.where(excess >= block_steps * max(slowest, 1.0), excess, 0.0)


def seldom_steps(ns: Floats, long_ns: Floats, taken: Bools) -> LongSteps | None:
    """Those of the blocks that are taken, where few have any; else None. All of shape (rounds, arms)."""
    found = long_ns[taken & (long_ns > 0)]
    if not 0 < len(found) < SELDOM * int(np.count_nonzero(taken)):
        return None
    return LongSteps(blocks=len(found), most_ns=float(found.max()), share=float(found.sum() / ns[taken].sum()))


def spread(values: Floats, part: Floats, taken: Bools) -> Floats:
    """`values` with `part` of each spread evenly over the blocks of the same round that are taken. All of shape (rounds, arms)."""
    count = np.maximum(taken.sum(axis=1, keepdims=True), 1)
    mean = np.where(taken, part, 0.0).sum(axis=1, keepdims=True) / count
    return np.where(taken, values - part + mean, values)
