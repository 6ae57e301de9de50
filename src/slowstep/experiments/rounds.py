"""Sums of the counted steps of each block, laid out by round and arm: what estimates are made from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.experiments.plan import Plan
from slowstep.experiments.readings import Steps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """Arrays of shape (rounds, arms). Only where `whole` is True has the block all its steps, and only there do the others mean anything.

    `samples` is None where a step's samples are not known: then a step is what throughput counts. `delay_ns` is the run-queue delay of the
    training thread, `delay_known` whether every step of the block has it.
    """

    steps: int
    whole: NDArray[np.bool_]
    ns: Floats
    samples: Floats | None
    delay_ns: Floats
    delay_known: NDArray[np.bool_]

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

    def summed(values: NDArray[np.int64]) -> Floats:
        return np.bincount(block, weights=values, minlength=len(order)).astype(np.float64)

    samples, delay_ns = steps.samples[counted], steps.delay_ns[counted]
    floor_ns = np.array([(floors or {}).get(arm, 0.0) for arm in range(len(plan.arms))])
    where = _Layout(order, len(plan.arms))
    whole = np.bincount(block, minlength=len(order)) == plan.steps
    # Who asks for a batch ahead receives none in an epoch's last step: a block's sum is what counts.
    known = bool((samples[whole[block]] >= 0).all() and (summed(samples)[whole] > 0).all())
    return Rounds(
        steps=plan.steps,
        whole=where.laid_out(whole),
        ns=where.laid_out(summed(steps.ns[counted])) + floor_ns * plan.steps,
        samples=where.laid_out(summed(samples)) if known else None,
        delay_ns=where.laid_out(summed(delay_ns)),
        delay_known=where.laid_out(summed((delay_ns < 0).astype(np.int64)) == 0),
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
