"""Sums of the counted steps of each block, laid out by round and arm: what estimates are made from. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.effects import FEWEST_CHANGED
from slowstep.prove.stats.long_steps import LongParts, LongSteps, excess_of_long_steps
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """Arrays of shape (rounds, arms). Only where `whole` is True has the block all its steps, and only there do the others mean anything.

    `samples` is None where a step's samples are not known: then a step is what throughput counts. `delay_ns` is the run-queue delay of the
    training thread, `delay_known` whether every step of the block has it. `long_parts` are the parts of `ns` that long steps are to answer
    for, `long_delays` those of `delay_ns`; `long_steps` are there where they are few, and have been spread over their rounds. `start` is
    which start of the script each round is of, from 0 on, of shape (rounds,).
    """

    steps: int
    whole: NDArray[np.bool_]
    ns: Floats
    samples: Floats | None
    delay_ns: Floats
    delay_known: NDArray[np.bool_]
    long_parts: LongParts
    long_delays: LongParts
    start: Ints
    long_steps: LongSteps | None = None

    def evened(self, arms: Collection[int]) -> Rounds:
        """The same with seldom long steps spread evenly over all steps of these arms, by round; other arms stay as they were."""
        taken = np.zeros_like(self.whole)
        taken[:, list(arms)] = self.whole[:, list(arms)]
        if not self.long_parts.are_seldom(taken):
            return self
        ns = self.long_parts.spread(self.ns, self.steps, taken)
        return replace(
            self,
            ns=ns,
            delay_ns=self.long_delays.spread(self.delay_ns, self.steps, taken),
            long_steps=self.long_parts.found(ns, self.ns, self.steps, taken),
        )

    def with_own(self, arm: int, others: Collection[int], evened: Rounds) -> Rounds:
        """The same for an arm that has an own way with long steps: what it met counts, where it would have met enough. `evened` is what
        `evened` gives for the `others`.
        """
        if evened.long_steps is None:
            return self
        whole = self.whole[:, arm]
        steps = (self.steps + self.long_parts.settling_steps[:, arm])[whole].sum()
        # As of what a lever changes: with fewer to be expected, that none came may be chance.
        if evened.long_steps.expected(steps) < FEWEST_CHANGED:
            return self.evened([*others, arm])
        alone = self.evened([arm])
        ns, delay_ns = evened.ns.copy(), evened.delay_ns.copy()
        ns[:, arm], delay_ns[:, arm] = alone.ns[:, arm], alone.delay_ns[:, arm]
        return replace(self, ns=ns, delay_ns=delay_ns)

    def both(self, arm: int, other: int) -> Ints:
        """The rounds in which two arms have whole blocks."""
        return np.flatnonzero(self.whole[:, arm] & self.whole[:, other]).astype(np.int64)

    def done(self) -> int:
        """The number of the last round of which anything was measured, from 1."""
        measured = np.flatnonzero(self.whole.any(axis=1))
        return int(measured[-1]) + 1 if len(measured) else 0


def sum_rounds(steps: ExperimentSteps, plan: Plan, floors: Mapping[int, float] | None = None) -> Rounds:
    """Add up the counted steps of a plan's blocks. A block that lacks steps (the script ended, the arm was given up) is not whole.

    `floors` are ns per step, by arm, that are added to the steps of arms whose input is mocked: receiving a batch that lies ready costs
    time, which no faster input removes.
    """
    order = np.asarray(plan.blocks, dtype=np.int64)
    steps = _as_planned(steps, order)
    counted, where = ~steps.settling, _Layout(order, len(plan.arms))

    def summed(values: Ints | Floats, of: NDArray[np.bool_]) -> Floats:
        return np.bincount(steps.block[of], weights=values[of], minlength=len(order)).astype(np.float64)

    floor_ns = np.array([(floors or {}).get(arm, 0.0) for arm in range(len(plan.arms))])
    whole = np.bincount(steps.block[counted], minlength=len(order)) == plan.steps
    sample_sums = summed(steps.samples, counted)
    # Who asks for a batch ahead receives none in an epoch's last step: a block's sum is what counts.
    known = bool((steps.samples[counted][whole[steps.block[counted]]] >= 0).all() and (sample_sums[whole] > 0).all())
    # A block's first step bears the change of arms itself.
    before = steps.settling & (np.diff(steps.block, prepend=-1) == 0)
    long_ns = _long_ns(steps, counted, plan.steps, len(order))

    def parts(values: Floats) -> LongParts:
        return LongParts(
            counted_ns=where.laid_out(summed(values, counted)),
            settling_ns=where.laid_out(summed(values, before)),
            settling_steps=where.laid_out(summed(np.ones(len(values)), before)),
        )

    return Rounds(
        steps=plan.steps,
        whole=where.laid_out(whole),
        ns=where.laid_out(summed(steps.ns, counted)) + floor_ns * plan.steps,
        samples=where.laid_out(sample_sums) if known else None,
        delay_ns=where.laid_out(summed(steps.delay_ns, counted)),
        delay_known=where.laid_out(summed((steps.delay_ns < 0).astype(np.int64), counted) == 0),
        long_parts=parts(long_ns),
        long_delays=parts(np.where(long_ns > 0, np.clip(steps.delay_ns, 0, long_ns), 0.0)),
        start=np.searchsorted(np.asarray(plan.begins, dtype=np.int64), np.arange(len(where)), side="right").astype(np.int64),
    )


def _long_ns(steps: ExperimentSteps, counted: NDArray[np.bool_], block_steps: int, blocks: int) -> Floats:
    """By how much each step is a long one; not in a block most of whose steps are: it lies in a slow stretch, of which each arm has its
    share.
    """
    long_ns = excess_of_long_steps(steps.ns, steps.input_ns, steps.arm, counted, block_steps)
    is_slow = 2 * np.bincount(steps.block[counted & (long_ns > 0)], minlength=blocks) > block_steps
    return np.where(counted & is_slow[steps.block], 0.0, long_ns)


def _as_planned(steps: ExperimentSteps, order: Ints) -> ExperimentSteps:
    """Those of the plan's blocks that were of the arm which was planned."""
    planned = (steps.block >= 0) & (steps.block < len(order))
    # A lever that could not be switched on leaves the training as it is, in a block that was meant for its arm.
    planned[planned] &= steps.arm[planned] == order[steps.block[planned]]
    return steps.where(planned)


class _Layout:
    """Where the blocks of a plan stand in a table of rounds and arms."""

    def __init__(self, order: NDArray[np.int64], arms: int) -> None:
        self._shape = (-(-len(order) // arms), arms)
        self._at = (np.arange(len(order)) // arms, order)

    def __len__(self) -> int:
        return self._shape[0]

    def laid_out(self, per_block: NDArray[Any]) -> NDArray[Any]:
        table = np.zeros(self._shape, dtype=per_block.dtype)
        table[self._at] = per_block
        return table
