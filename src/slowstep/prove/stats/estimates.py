"""What an experiment measured: for every arm its throughput against the training as it is, with an interval. Pure.

The gain is a ratio of sums over the rounds that have both arms: (ns as it is / samples as it is) / (ns of the arm / samples of the arm).
Not a median of steps: what is rare but dear, a checkpoint or a validation, must count with all that it costs; on which arm it falls is
taken out where chance decides it (`long_steps.py`). Both arms of a round ran within a second or so of each other, so what makes a whole
round slow falls out of the ratio.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from slowstep.prove.stats.design import AS_IS
from slowstep.prove.stats.intervals import FEWEST_ROUNDS, Interval, LogRatio, log_ratio
from slowstep.prove.stats.long_steps import LongSteps
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.prove.stats.rounds import Floats, Ints, Rounds, sum_rounds
from slowstep.prove.stats.throughput import Throughputs


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The gain of an arm as a factor of throughput, from so many rounds and counted steps of the arm.

    `wall` is what a clock on the wall says. `corrected` is the same less the time in which the training thread waited for a core; None
    where that is not known. `uses_corrected` says which of them the gain is, `per` what throughput counts: samples or, where they are not
    known, steps; `throughputs` are what the gain `wall` is the ratio of, floors included. `long_steps` are those
    that count alike in both arms, if any. The rounds are of so many `starts` of the script.
    """

    arm: int
    rounds: int
    steps: int
    wall: Interval
    corrected: Interval | None
    uses_corrected: bool
    per: str
    log_ratio: LogRatio
    throughputs: Throughputs | None = None
    long_steps: LongSteps | None = None
    starts: int = 1

    @property
    def gain(self) -> Interval:
        """The interval that counts."""
        return self.corrected if self.uses_corrected and self.corrected is not None else self.wall


def estimate(
    steps: ExperimentSteps,
    plan: Plan,
    *,
    floors: Mapping[int, float] | None = None,
    corrected: Collection[int] = (),
    own_long: Collection[int] = (),
    rough: bool = False,
    level: float = 0.95,
) -> dict[int, Estimate]:
    """Estimates by arm; an arm of which fewer than FEWEST_ROUNDS rounds are whole has none.

    `floors` are ns per step by arm, see `sum_rounds`. `corrected` are the arms whose gain is the corrected one: where others use the
    machine, and the arm's levers do not change how much of it the training asks for; else the delay is the very effect that is asked for.
    `own_long` are the arms whose levers may be what takes seldom long steps away: those that they met count for them, if enough came.
    `rough` intervals are less work, and too narrow rather than too wide (`log_ratio`).
    """
    rounds = sum_rounds(steps, plan, floors)
    others = [arm for arm in range(len(plan.arms)) if arm not in own_long]
    evened = rounds.evened(others)
    found = {}
    for arm in range(1, len(plan.arms)):
        both = rounds.both(AS_IS, arm)
        if len(both) >= FEWEST_ROUNDS:
            own = rounds.with_own(arm, others, evened) if arm in own_long else evened
            found[arm] = _estimate(own, arm, both, arm in corrected, level=level, rough=rough)
    return found


def _estimate(rounds: Rounds, arm: int, both: Ints, wants_corrected: bool, *, level: float, rough: bool) -> Estimate:
    columns, per = _columns(rounds, rounds.ns, arm, both), "step" if rounds.samples is None else "sample"
    start = rounds.start[both]
    wall = log_ratio(columns, start=start, rough=rough)
    known = bool(rounds.delay_known[both][:, [AS_IS, arm]].all())
    less_delay = _columns(rounds, np.maximum(rounds.ns - rounds.delay_ns, 1.0), arm, both)
    corrected = log_ratio(less_delay, start=start, rough=rough) if known else None
    return Estimate(
        arm=arm,
        rounds=len(both),
        steps=len(both) * rounds.steps,
        wall=wall.interval(level),
        corrected=None if corrected is None else corrected.interval(level),
        uses_corrected=wants_corrected and corrected is not None,
        per=per,
        throughputs=_throughputs(columns, per),
        long_steps=rounds.long_steps,
        starts=len(np.unique(start)),
        log_ratio=corrected if wants_corrected and corrected is not None else wall,
    )


def _throughputs(columns: Floats, per: str) -> Throughputs:
    as_is_ns, as_is, ns, done = columns.sum(axis=0)
    return Throughputs(per=per, as_is_per_s=float(as_is / as_is_ns * 1e9), per_s=float(done / ns * 1e9))


def _columns(rounds: Rounds, ns: Floats, arm: int, both: Ints) -> Floats:
    """One row a round: ns as it is, samples as it is, ns of the arm, samples of the arm."""
    counted = np.full_like(ns, rounds.steps) if rounds.samples is None else rounds.samples
    return np.column_stack([ns[both, AS_IS], counted[both, AS_IS], ns[both, arm], counted[both, arm]])
