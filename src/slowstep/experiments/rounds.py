"""Sums of the counted steps of each block, laid out by round and arm: what estimates are made from. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.experiments.long_steps import LongSteps, excess_of_long_steps, seldom_steps, spread
from slowstep.experiments.plan import Plan
from slowstep.experiments.readings import Steps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """Arrays of shape (rounds, arms). Only where `whole` is True has the block all its steps, and only there do the others mean anything.

    `samples` is None where a step's samples are not known: then a step is what throughput counts. `delay_ns` is the run-queue delay of the
    training thread, `delay_known` whether every step of the block has it. `long_ns` is the part of `ns` that long steps are to answer for,
    `long_delay_ns` that of `delay_ns`; of `long_steps` there are any where they are few, and have been spread over their rounds.
    """

    steps: int
    whole: NDArray[np.bool_]
    ns: Floats
    samples: Floats | None
    delay_ns: Floats
    delay_known: NDArray[np.bool_]
    long_ns: Floats
    long_delay_ns: Floats
    long_steps: LongSteps | None = None

    def without_chance(self, own: Collection[int]) -> Rounds:
        """The same with seldom long steps spread over the arms of their round, but for the arms that have an `own` way with them."""
        taken = self.whole.copy()
        taken[:, list(own)] = False
        found = seldom_steps(self.ns, self.long_ns, taken)
        if found is None:
            return self
        return replace(
            self,
            ns=spread(self.ns, self.long_ns, taken),
            delay_ns=spread(self.delay_ns, self.long_delay_ns, taken),
            long_steps=found,
        )

    def both(self, arm: int, other: int) -> Ints:
        """The rounds in which two arms have whole blocks."""
        return np.flatnonzero(self.whole[:, arm] & self.whole[:, other]).astype(np.int64)

    def done(self) -> int:
        """The number of the last round of which anything was measured, from 1."""
        measured = np.flatnonzero(self.whole.any(axis=1))
        return int(measured[-1]) + 1 if len(measured) else 0


def sum_rounds(steps: Steps, plan: Plan, floors: Mapping[int, float] | None = None) -> Rounds:
    """Add up the counted steps of a plan's blocks. A block that lacks steps (the script ended, the arm was given up) is not whole.

    `floors` are ns per step, by arm, that are added to the steps of arms whose input is mocked: receiving a batch that lies ready costs
    time, which no faster input removes.
    """
    order = np.asarray(plan.blocks, dtype=np.int64)
    counted = ~steps.settling & (steps.block >= 0) & (steps.block < len(order))
    # A lever that could not be switched on leaves the training as it is, in a block that was meant for its arm.
    counted[counted] &= steps.arm[counted] == order[steps.block[counted]]
    block = steps.block[counted]

    def summed(values: Ints | Floats) -> Floats:
        return np.bincount(block, weights=values, minlength=len(order)).astype(np.float64)

    ns, samples, delay_ns = steps.ns[counted], steps.samples[counted], steps.delay_ns[counted]
    long_ns = excess_of_long_steps(ns, steps.input_ns[counted], steps.arm[counted], plan.steps)
    floor_ns = np.array([(floors or {}).get(arm, 0.0) for arm in range(len(plan.arms))])
    where = _Layout(order, len(plan.arms))
    whole = np.bincount(block, minlength=len(order)) == plan.steps
    # Who asks for a batch ahead receives none in an epoch's last step: a block's sum is what counts.
    known = bool((samples[whole[block]] >= 0).all() and (summed(samples)[whole] > 0).all())
    return Rounds(
        steps=plan.steps,
        whole=where.laid_out(whole),
        ns=where.laid_out(summed(ns)) + floor_ns * plan.steps,
        samples=where.laid_out(summed(samples)) if known else None,
        delay_ns=where.laid_out(summed(delay_ns)),
        delay_known=where.laid_out(summed((delay_ns < 0).astype(np.int64)) == 0),
        long_ns=where.laid_out(summed(long_ns)),
        long_delay_ns=where.laid_out(summed(np.where(long_ns > 0, np.minimum(delay_ns, long_ns), 0.0))),
    )


class _Layout:
    """Where the blocks of a plan stand in a table of rounds and arms."""

    def __init__(self, order: NDArray[np.int64], arms: int) -> None:
        self._shape = (-(-len(order) // arms), arms)
        self._at = (np.arange(len(order)) // arms, order)

    def laid_out(self, per_block: NDArray[Any]) -> NDArray[Any]:
        table = np.zeros(self._shape, dtype=per_block.dtype)
        table[self._at] = per_block
        return table
