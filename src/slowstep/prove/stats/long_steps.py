"""Steps that are seldom and so long that one decides what its block takes: a validation, a checkpoint, a stall of the machine. Pure.

A few of them fall on the arms by chance, and a gain of a few percent drowns in that: a validation of 3 s in every 500 steps of 8 ms, met
three times by one arm and once by the next. What such a step takes besides its input is no affair of most levers. So it is spread evenly
over all arms of its round: means stay what they were, it counts with all that it costs, and which arm it hit no longer matters. Rounds
differ as before, so that intervals still know how seldom it came.

Those that fall in the steps in which an arm settles are spread with the others. A lever that gives batches settles until workers that
nobody asks have filled their queues, by the clock: a validation gives them that time, so that blocks begin right behind it and hold none.

Its input stays where it was, since that is what a lever may have removed. An arm with a lever that leaves out calls, or changes how many
there are, keeps the long steps that it met, spread over its own steps alone, where enough of them were to be expected in it: what is not
met by chance was not removed.
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
    """So many blocks had them, in so many steps; what they took beyond usual steps and their input, at most in one block and as a share of
    all the time.
    """

    blocks: int
    steps: int
    most_ns: float
    share: float

    def expected(self, steps: float) -> float:
        """How many there are in so many steps, on average."""
        return self.blocks / self.steps * steps

    def gain_without(self, gain: float) -> float:
        """What a gain would be if the lever took them away, too: with m of the time as it is, the lever has m / gain, theirs among it."""
        left = 1 / gain - self.share
        return 1 / left if left > 0 else math.inf


def excess_of_long_steps(ns: Ints, input_ns: Ints, arm: Ints, counted: Bools, block_steps: int) -> Floats:
    """By step: ns beyond its arm's usual counted step, less input, where that is as much as a whole block takes in the slowest arm; else 0.

    All of shape (steps,).
    """
    other = np.maximum(ns - input_ns, 0).astype(np.float64)
    usual = np.full(len(ns), np.inf)
    slowest = 1.0
    for which in np.unique(arm[counted]):
        mine = arm == which
        usual[mine] = np.median(other[mine & counted])
        slowest = max(slowest, float(np.median(ns[mine & counted])))
    excess = other - usual
    return np.where(excess >= block_steps * slowest, excess, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LongParts:
    """What long steps took, of shape (rounds, arms): ns in a block's counted steps, and in so many of those before them."""

    counted_ns: Floats
    settling_ns: Floats
    settling_steps: Floats

    def are_seldom(self, taken: Bools) -> bool:
        """Whether few of the blocks that are taken hold one among their counted steps, and there is any."""
        hit = int(np.count_nonzero(self.counted_ns[taken]))
        return bool((self.counted_ns + self.settling_ns)[taken].any()) and hit < SELDOM * int(np.count_nonzero(taken))

    def spread(self, values: Floats, steps: int, taken: Bools) -> Floats:
        """Sums over the `steps` counted steps of each block, with what long steps took of them spread evenly over all steps of the blocks
        that are taken, and over the arms of the same round.
        """
        all_ns = np.where(taken, self.counted_ns + self.settling_ns, 0.0).sum(axis=1, keepdims=True)
        arms = np.maximum(taken.sum(axis=1, keepdims=True), 1)
        # Of all rounds: how long an arm settles has to do with when a long step comes.
        per_block = (steps + self.settling_steps)[taken].mean() if taken.any() else 1.0
        return np.where(taken, values - self.counted_ns + steps / per_block * all_ns / arms, values)

    def found(self, spread_ns: Floats, ns: Floats, steps: int, taken: Bools) -> LongSteps:
        """What is to be told of those that were spread: `ns` are the sums before, and `spread_ns` after."""
        both = np.where(taken, self.counted_ns + self.settling_ns, 0.0)
        usual_ns, all_ns = (ns - self.counted_ns)[taken].sum(), spread_ns[taken].sum()
        return LongSteps(
            blocks=int(np.count_nonzero(both)),
            steps=int((steps + self.settling_steps)[taken].sum()),
            most_ns=float(both.max()),
            share=float(1 - usual_ns / all_ns),
        )
