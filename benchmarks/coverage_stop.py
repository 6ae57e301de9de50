"""Whole simulated experiments: blocks go on until all intervals are narrow enough or the budget is spent, then verdicts are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from coverage_methods import Floats

from slowstep.prove.stats.design import CONTROL, MIN_ROUNDS
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.intervals import LogRatio, log_ratio, student_pivots
from slowstep.prove.stats.judging import is_precise, is_trustworthy, judge_all

PRECISION = 0.05
# Of the trainings in an experiment: as is, control, six levers.
ARMS = 8


@dataclass
class Stopped:
    """Counts over many experiments whose levers all have the same true gain."""

    experiments: int = 0
    levers: int = 0
    rounds: int = 0
    precise: int = 0
    held: int = 0
    proved: int = 0
    refuted: int = 0
    untrusted: int = 0

    def add(self, table: Floats, truth: float) -> None:
        """One experiment: sums by round and arm."""
        rounds = last_round(table)
        estimates = {arm: estimated(arm, table[:rounds]) for arm in range(1, ARMS)}
        verdicts = [judgement.verdict for judgement in judge_all(estimates).values()]
        self.experiments += 1
        self.levers += len(verdicts)
        self.rounds += rounds
        self.precise += is_precise(estimates, PRECISION)
        self.held += sum(e.wall.low <= truth <= e.wall.high for arm, e in estimates.items() if arm != CONTROL)
        self.proved += "proved" in verdicts
        self.refuted += "refuted" in verdicts
        self.untrusted += not is_trustworthy(estimates[CONTROL])

    def shown(self) -> str:
        each = self.experiments
        shares = (self.precise / each, self.held / self.levers, self.proved / each, self.refuted / each, self.untrusted / each)
        return f"{self.rounds / each:.0f} | " + " | ".join(f"{100 * share:.1f}" for share in shares)


HEADER = "rounds | precise in time | intervals that hold | any proved | any refuted | control not trusted"


def last_round(table: Floats) -> int:
    """After how many rounds the experiment stops: at the first that is precise, else with the last."""
    for rounds in range(MIN_ROUNDS, len(table)):
        if may_be_precise(table[:rounds]) and is_precise({arm: estimated(arm, table[:rounds]) for arm in range(1, ARMS)}, PRECISION):
            return rounds
    return len(table)


def may_be_precise(table: Floats) -> bool:
    """Whether Student's intervals, which are never the wider ones, are narrow enough: saves most of the work."""
    relative = table / table.mean(axis=0) - 1
    n = len(table)
    error = np.sqrt(np.square(relative[:, CONTROL + 1 :] - relative[:, :1]).sum(axis=0) / (n * (n - 1)))
    return bool(error.max() * np.quantile(student_pivots(n - 1), 0.97) <= math.log1p(PRECISION))


def estimated(arm: int, table: Floats) -> Estimate:
    ratio = ratio_of(arm, table)
    return Estimate(
        arm=arm,
        rounds=len(table),
        steps=len(table),
        wall=ratio.interval(),
        corrected=None,
        uses_corrected=False,
        per="step",
        log_ratio=ratio,
    )


def ratio_of(arm: int, table: Floats) -> LogRatio:
    one = np.ones(len(table))
    return log_ratio(np.column_stack([table[:, 0], one, table[:, arm], one]))


def experiments(tables: Callable[[int], Floats], count: int, gain: float) -> Stopped:
    """So many of them; `tables` gives the sums of the one with this number, of trainings in which no lever does anything."""
    found = Stopped()
    gains = np.array([1.0, 1.0] + [gain] * (ARMS - 2))
    for number in range(count):
        found.add(tables(number) / gains, gain)
    return found
