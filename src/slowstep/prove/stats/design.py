"""The design of an experiment: which arms, in which order, in blocks of how many steps. Pure, but for `draw_seed`.

Blocks are interleaved, so that what drifts meets all arms alike: a round has every arm once, in an order drawn for that round. The order
is also what makes the statistics right: whatever the noise is, and however neighbouring steps resemble each other, which arm of a round it
hits is chance (randomised complete blocks; Fisher, The Design of Experiments, 1935, ch. IV).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Final

from slowstep.prove.stats.plan import Arm, Plan

AS_IS: Final = 0
# Without levers too: what it "gains" is what the experiment takes for a gain where there is none.
CONTROL: Final = 1
# The plan has two arms without levers before the first choice.
FIRST: Final = CONTROL + 1
# Rounds without which there is no verdict.
MIN_ROUNDS: Final = 8
# Pairs of whole runs without which there is none. Blocks of one training need more: they are a few steps each, and resemble their
# neighbours. Of the logarithms of pairs it is asked that they are independent and normal, and then Student's t holds from two on.
FEWEST_PAIRS: Final = 4
# Before so many starts nothing that is narrow is believed: that two are alike is chance too often (benchmarks/coverage_restarts.py).
FEWEST_STARTS: Final = 3
# Short blocks beat long ones: on a real trace the mean of blocks of 1 or 5 steps was as sure as that of blocks of 20 with twice the steps,
# and at least one step in a block is lost to the change of arms. Where steps are short that loss is made small by longer blocks.
FEWEST_STEPS: Final = 5
SHORTEST_BLOCK_MS: Final = 50.0
# Between two batches of a loader that is read every few steps only, all its workers may have made one: they deliver in bunches. A block has
# so few of its batches that part of a bunch matters: five batches of two workers always had three waits, and not two and a half (of four
# workers 4.7 (4.6-5.0) was said, and 4.06 is true). Of 1, 2, 4 and 8 workers so many batches are whole bunches.
WHOLE_BUNCHES: Final = 8
# A block that holds several periods whole may last so long: with longer ones there are too few of them.
LONGEST_BLOCK_MS: Final = 1000.0
# Where calls return before their work is done, a change of arms takes the host its lead on the device. What it does now and then for as
# long as several steps (a plot) costs time until it is ahead again, and none after: so half as many steps as a block counts come before it.
FEWEST_STEPS_ASYNCHRONOUS: Final = 20
SETTLING_SHARE_ASYNCHRONOUS: Final = 0.5
# After a block its arm goes on while the device makes the last of its steps: for this share of them at most, and for no more calls than
# XLA lets be ahead (max_inflight_computations, for processors and accelerators).
GOING_ON_SHARE: Final = 0.5
MOST_AHEAD: Final = 32
# Where both share a processor, the host slows the device down by what it does, and does more of it until it is as far ahead as it may be:
# blocks are so long that most of one is as the training goes on, four times as many calls as may be ahead, where that takes no longer than
# a block may. Callbacks under the busy processor gained 1.3 in blocks of 20 where 1.05 is true, and 1.03 in blocks of 118 where 1.00 is
# (decision 0012).
SHARED_STEPS_ASYNCHRONOUS: Final = 128
# Steps that are lost at a change of arms: the first always, after an input was mocked some more.
SETTLING_STEPS: Final = 2
# What a plan holds at most: an experiment that is not precise after so many rounds will not be.
MOST_ROUNDS: Final = 400
# Arms may be so much faster than the training as it is that the plan would be done before the budget is spent.
SPARE_ROUNDS: Final = 3
# An arm that is given up as not applicable takes no more time, and rounds get shorter: of fifteen levers three were left, and the plan was
# done after four fifths of the budget. As it is, the control and one lever are the fewest that are gone on with.
FEWEST_ARMS: Final = 3
SEEDS: Final = 1 << 31
# Of the budget, so much may pass until the levers are ready: the other half is for those that are.
READY_SHARE: Final = 0.5
# And never less than so many steps take: a ring of cached batches is full after 18, and loaders are looked at for as many as 16.
READY_STEPS: Final = 32


def draw_seed() -> int:
    """A seed for an order of blocks that nobody asked for."""
    return random.SystemRandom().randrange(SEEDS)


def schedule(arm_count: int, rounds: int, seed: int) -> tuple[int, ...]:
    """Indices of arms in the order of their blocks: `rounds` rounds, each with every arm once in an order of its own."""
    draw = random.Random(seed)
    return tuple(arm for _ in range(rounds) for arm in draw.sample(range(arm_count), arm_count))


def common_period(periods: Iterable[int]) -> int:
    """The fewest steps in which each of these periods is whole; 1 where there are none."""
    return math.lcm(*periods)


def block_steps(step_ms: float, period_steps: int = 1, *, most: int | None = None, fewest: int = FEWEST_STEPS) -> int:
    """Counted steps of a block: a whole number of periods, so that what comes every so many steps is in every block equally often.

    `most` is what the budget leaves. A period that is longer is given up: its events then fall on the arms by chance, see `doubts`.
    """
    steps = max(fewest, math.ceil(SHORTEST_BLOCK_MS / step_ms))
    if most is None:
        return _whole(steps, period_steps)
    if period_steps > most:
        return max(1, min(steps, most))
    return min(_whole(steps, period_steps), most // period_steps * period_steps)


def whole_turns(arms: Sequence[Arm], period_steps: int, step_ms: float, *, most: int) -> int:
    """Steps in which what recurs is whole, and in which every lever that leaves one call in k has all its k turns where calls come in each
    step, or in each period.

    Turns go on from block to block (`levers/_calls/turns.py`), so that the share of the calls that are made is right in any case. Whole
    turns take what differs from block to block out of the noise, and are left out where blocks would get too long for it.
    """
    turns = 1
    for every in sorted({spec.every for arm in arms for spec in arm.levers}):
        together = math.lcm(turns, every)
        if (steps := period_steps * together) <= most and steps * step_ms <= LONGEST_BLOCK_MS:
            turns = together
    return period_steps * turns


def whole_bunches(period_steps: int, turn_steps: int, *, most: int) -> int:
    """Steps in which what recurs is whole and, where loaders take turns, so many batches of each that its workers' bunches are whole.

    A period that is longer than `most` is given up, and the bunches are whole at least.
    """
    if turn_steps == 1:
        return period_steps
    period = period_steps if period_steps <= most else 1
    batches = WHOLE_BUNCHES
    while batches > 1 and math.lcm(period, turn_steps * batches) > most:
        batches //= 2
    together = math.lcm(period, turn_steps * batches)
    return together if together <= most else period


def make_plan(
    arms: Sequence[Arm],
    *,
    seed: int,
    step_ms: float,
    period_steps: int = 1,
    turn_steps: int = 1,
    is_asynchronous: bool = False,
    shares_cores: bool = False,
    budget_s: float,
) -> Plan:
    """The plan for these arms with levers; as-is and the control come before them. It is longer than the budget: whoever runs it stops.
    In each `turn_steps` every loader that feeds the training is read. `is_asynchronous`: calls return before their work is done, and
    where it is done by the processor that makes the calls, it `shares_cores` with them.

    Raises ValueError for an arm without levers, and for a step or a budget of no length.
    """
    if any(not arm.levers for arm in arms):
        raise ValueError("as-is and the control are added here: every other arm needs a lever")
    if min(step_ms, budget_s) <= 0:
        raise ValueError(f"a step of {step_ms} ms and a budget of {budget_s} s: both must be longer than nothing")
    count = len(arms) + 2
    most = _most_steps(count, step_ms, budget_s, settling=SETTLING_STEPS * turn_steps)
    if is_asynchronous:
        most = max(1, int(most / (1 + SETTLING_SHARE_ASYNCHRONOUS + GOING_ON_SHARE)))
    period_steps = whole_bunches(period_steps, turn_steps, most=most)
    steps = block_steps(
        step_ms,
        whole_turns(arms, period_steps, step_ms, most=most),
        most=most,
        fewest=_fewest_steps(step_ms, is_asynchronous=is_asynchronous, shares_cores=shares_cores),
    )
    settling, going_on = _steps_around(steps) if is_asynchronous else (0, 0)
    return Plan(
        seed=seed,
        steps=steps,
        arms=(Arm(name="as-is"), Arm(name="control"), *arms),
        blocks=schedule(count, _rounds(steps, step_ms, budget_s, settling + going_on), seed),
        longest_step_s=budget_s / (MIN_ROUNDS * (steps + max(SETTLING_STEPS, settling + going_on))),
        ready_s=max(READY_SHARE * budget_s, READY_STEPS * step_ms / 1000),
        settling=settling,
        going_on=going_on,
    )


def _steps_around(steps: int) -> tuple[int, int]:
    """Where calls return before their work is done: the steps that settle before those of a block, and those that go on after them."""
    return math.ceil(SETTLING_SHARE_ASYNCHRONOUS * steps), min(MOST_AHEAD, math.ceil(GOING_ON_SHARE * steps))


def _rounds(steps: int, step_ms: float, budget_s: float, around: int) -> int:
    """More than the budget has room for with the fewest arms, within bounds."""
    wanted = math.ceil(SPARE_ROUNDS * budget_s / round_seconds(FEWEST_ARMS, steps, step_ms, around))
    return min(max(wanted, MIN_ROUNDS), MOST_ROUNDS)


def _fewest_steps(step_ms: float, *, is_asynchronous: bool, shares_cores: bool) -> int:
    if not is_asynchronous:
        return FEWEST_STEPS
    shared = min(SHARED_STEPS_ASYNCHRONOUS, int(LONGEST_BLOCK_MS / step_ms)) if shares_cores else 0
    return max(FEWEST_STEPS_ASYNCHRONOUS, shared)


def round_seconds(arm_count: int, steps: int, step_ms: float, uncounted: int = 0) -> float:
    """Seconds that a round takes at the speed of the training as it is; so many steps of a block are not counted at least."""
    return arm_count * (steps + max(SETTLING_STEPS, uncounted)) * step_ms / 1000


def needed_s(plan: Plan, *, step_ms: float, period_steps: int = 1) -> float:
    """The shortest budget, in seconds, of a plan for these arms whose blocks hold whole periods, and that has the rounds of a verdict."""
    steps = period_steps if plan.steps % period_steps else plan.steps
    return MIN_ROUNDS * round_seconds(len(plan.arms), steps, step_ms, plan.uncounted)


def doubts(plan: Plan, *, step_ms: float, period_steps: int = 1, budget_s: float, advised_s: float) -> tuple[str, ...]:
    """What this plan cannot do within its budget, each a sentence with what to do: with the levers as they are, give `advised_s`."""
    count = len(plan.arms)
    found = []
    if plan.steps % period_steps:
        found.append(
            f"Something recurs every {period_steps} steps, more than a block of {plan.steps} steps holds. Which lever it falls on is "
            "chance, and a gain from it shows late or not at all"
        )
    if (needed := needed_s(plan, step_ms=step_ms)) > budget_s:
        found.append(
            f"The budget of {budget_s:g} s is too short to prove anything: {MIN_ROUNDS} rounds of {count} variants take about "
            f"{math.ceil(needed)} s"
        )
    return tuple(f"{doubt}: give --budget {math.ceil(advised_s)}s, or fewer levers" for doubt in found)


def _most_steps(arm_count: int, step_ms: float, budget_s: float, *, settling: int) -> int:
    """Steps of a block with which the fewest rounds fit into the budget."""
    return max(1, int(budget_s * 1000 / (MIN_ROUNDS * arm_count * step_ms)) - settling)


def _whole(steps: int, period: int) -> int:
    return math.ceil(steps / period) * period
