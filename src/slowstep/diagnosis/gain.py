"""Predicted gains: T / max(T - r, B), with a 90 % interval.

r is what a fix removes from a step, B the largest demand per step of what then runs beside it. The interval comes from a block bootstrap
over blocks of steps (at least a period long), widened by the worse and the better case of what the counterfactual assumes, and by how much
two runs differ on this machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.chance import NORMAL_95, SEED
from slowstep.analyses.steps.steps import ENOUGH_NS, STEPS_AT_LEAST, Floats
from slowstep.calibration import between_runs
from slowstep.findings import Evidence, EvidenceCode, Gain
from slowstep.reasons import Reason, Wording

RESAMPLES = 400
# Of a step of which less is left, nothing is.
NOTHING_NS = 1.0
# Of making batches: from more than this on, what holds it up is reading them.
MOSTLY_BLOCKED = 0.5
# Blocks must be long enough that neighbouring steps' correlation is inside them, and many enough to be drawn from.
BLOCK_AT_LEAST = 5
BLOCKS_AT_LEAST = 8
BLOCKS_AT_MOST = 1000
# Two runs of one training differ even on a quiet machine of one's own, by its memory's layout.
RUN_TO_RUN = between_runs.RUN_TO_RUN.value
# On a shared machine they differ by its pace, which stays for seconds, and changes between runs as it does between eighths of one: the
# case study's own work had a standard deviation of 0.04 to 0.14 (ln) between runs and of 0.05 to 0.12 within them (`RUN_TO_RUN`, 30 runs of
# three variants). Half of a 90 % interval of the difference of two runs is so many of these.
PACE_DEVIATIONS = NORMAL_95 * math.sqrt(2)
# Two runs that may differ by twice the least gain of a verdict: who fixes something may not see it.
UNEVEN = 0.20

REMOVED = "fix saves per step"
NOTHING_LEFT_OF_STEP = Wording("nothing-left-of-step", "nothing would be left of a step")


@dataclass(frozen=True, kw_only=True, slots=True)
class StepAfter:
    """What a counterfactual leaves of the mean step: what it still takes by itself, and what then runs beside it.

    `concurrent_stage` is the stage of that, where it takes longer. `samples_ratio` is samples per step afterwards by those before.
    """

    own_ns: float
    concurrent_ns: float = 0.0
    concurrent_stage: str | None = None
    samples_ratio: float = 1.0

    def factor(self, step_ns: float) -> float:
        """Throughput afterwards by that of steps of `step_ns`; infinite where nothing is left of one."""
        left = max(self.own_ns, self.concurrent_ns)
        return self.samples_ratio * step_ns / left if left >= NOTHING_NS else math.inf


class AnyCounterfactual(Protocol):
    """What would be otherwise, in words, and what that gains: time taken away (`Counterfactual`, and of a trace without a device
    `named_ranges.Shortened`), or a replay (`replayed.Replayed`).
    """

    @property
    def assumes(self) -> str:
        """What the world would be like."""

    def gain(self, m: Measurements) -> Gain:
        """The gain, as a factor of throughput; unknown where it cannot be predicted."""

    def after(self, m: Measurements) -> StepAfter | None:
        """What is left of the mean step; None where that is not known."""

    def removed_ms(self, m: Measurements) -> float | None:
        """By how much the mean step gets shorter, per as many samples; None where that is not known."""


def predict(m: Measurements, counterfactual: AnyCounterfactual) -> Gain:
    """The gain of a counterfactual of either kind, as a factor of throughput."""
    return counterfactual.gain(m)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One reading of the assumptions: ns per step that the fix removes, and the largest demand B beside what is left.

    `delay_share` of what it removes is the training thread's run-queue delay: `share_queued` of what of that delay is in it.
    """

    removed_ns: Floats
    concurrent_ns: float = 0.0
    delay_share: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Counterfactual:
    """Time that is taken away from steps: what the world would be like, in words, as expected, pessimistic and optimistic."""

    assumes: str
    expected: Case
    pessimistic: Case
    optimistic: Case
    # Samples per step after the fix / before (larger batches); 1 for all other fixes.
    samples_ratio: float = 1.0

    def gain(self, m: Measurements) -> Gain:
        """Unknown where nothing would be left of a step as expected; where that is so only at best, the interval has no upper end."""
        t, r = (np.asarray([per_step.mean()]) for per_step in (m.step_ns, self.expected.removed_ns))
        expected = _factor(float(_shares_left(t, self.expected, r, self.samples_ratio)[0]))
        if math.isinf(expected):
            return unknown_gain(self.assumes, because=NOTHING_LEFT_OF_STEP())
        drawn = _drawn(m)
        clocks = (clock for case in (self.expected, self.pessimistic, self.optimistic) for clock in _clocks(m, case))
        left = [_shares_left(drawn.means(step), case, drawn.means(case.removed_ns), self.samples_ratio) for step, case in clocks]
        low = min(_factor(float(np.percentile(shares, 95))) for shares in left)
        high = max(_factor(float(np.percentile(shares, 5))) for shares in left)
        differ = max(math.exp(RUN_TO_RUN), runs_differ(m))
        least, steady = min(low / differ, expected), min(low * (1 - RUN_TO_RUN), expected)
        return Gain(
            predicted=expected,
            low=least,
            high=None if math.isinf(high) else max(high * differ, expected),
            assumes=self.assumes,
            steady_low=steady,
        )

    def after(self, m: Measurements) -> StepAfter:
        """What is left of the training thread's time; batches are made beside it."""
        own_ns, concurrent_ns = float(m.step_ns.mean() - self.expected.removed_ns.mean()), self.expected.concurrent_ns
        stage = _stage_of_producers(m) if concurrent_ns > own_ns else None
        return StepAfter(own_ns=own_ns, concurrent_ns=concurrent_ns, concurrent_stage=stage, samples_ratio=self.samples_ratio)

    def removed_ms(self, m: Measurements) -> float:
        """By how much the mean step gets shorter: no further than what then runs beside it takes."""
        step_ns = float(m.step_ns.mean())
        return step_ns * (1 - 1 / self.after(m).factor(step_ns)) / 1e6


def saved_by(m: Measurements, counterfactual: AnyCounterfactual | None) -> Evidence:
    """What a fix saves of a step, as a finding shows it: what its gain is predicted from."""
    removed_ms = None if counterfactual is None else counterfactual.removed_ms(m)
    return Evidence(name=REMOVED, value=removed_ms, unit="ms", code=EvidenceCode.SAVED_BY_FIX)


def _stage_of_producers(m: Measurements) -> str:
    blocked = m.input.demand.blocked_share
    return "read" if blocked is not None and blocked > MOSTLY_BLOCKED else "preprocess"


def unknown_gain(assumes: str, *, because: Reason | None = None, share: float | None = None) -> Gain:
    """A gain that cannot be predicted, with the assumption that it rests on, and why it cannot; and what it would be if the
    `share` of the window that is expected to be all of it cost nothing.
    """
    headroom = 1 / (1 - share) if share is not None and share < 1 else None
    return Gain(predicted=None, low=None, high=None, assumes=assumes, unknown_because=because, headroom=headroom)


def _clocks(m: Measurements, case: Case) -> list[tuple[Floats, Case]]:
    """Wall time per step and, where others use the machine, also without the training thread's run-queue delay."""
    wall = m.step_ns, case
    if not m.machine.load.busy:
        return [wall]
    return [wall, (m.step_ns - m.machine.delay_ns, replace(case, removed_ns=case.removed_ns * (1 - case.delay_share)))]


def share_queued(queued_ns: Floats, removed_ns: Floats) -> float:
    """How much of what is removed is the training thread's run-queue delay, 0 to 1, by both per step."""
    removed = float(removed_ns.sum())
    return min(max(float(queued_ns.sum()) / removed, 0.0), 1.0) if removed > 0 else 0.0


def _shares_left(t: Floats, case: Case, r: Floats, samples_ratio: float) -> Floats:
    """max(T - r, B) / T, per sample, of means of T and r: 0 where nothing is left."""
    left = np.maximum(t - r, case.concurrent_ns)
    # Differences of long sums are never exactly 0.
    left = np.where(left < NOTHING_NS, 0.0, left)
    return np.divide(left, samples_ratio * t, out=np.full_like(t, 1 / samples_ratio), where=t > 0)


def _factor(share_left: float) -> float:
    """Infinite where nothing is left."""
    return 1 / share_left if share_left > 0 else math.inf


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Bootstrap samples: where their blocks of neighbouring steps begin, and how long blocks are. The steps are taken as a circle."""

    starts: NDArray[np.int64]  # shape (RESAMPLES, blocks)
    length: int

    def means(self, per_step: Floats) -> Floats:
        """The mean of a quantity in each sample. Shape (RESAMPLES,)."""
        circle = np.concatenate(([0.0], np.cumsum(np.concatenate((per_step, per_step[: self.length])))))
        sums = (circle[self.starts + self.length] - circle[self.starts]).sum(axis=1)
        return np.asarray(sums / (self.starts.shape[1] * self.length))


def _drawn(m: Measurements) -> _Drawn:
    """Samples of blocks that are at least a period long, and no more than BLOCKS_AT_MOST in a sample."""
    n = m.steps.count
    length = max(BLOCK_AT_LEAST, m.steps.period if m.steps.whole_periods else 1, n // BLOCKS_AT_MOST)
    length = max(1, min(length, n // BLOCKS_AT_LEAST)) if n >= BLOCKS_AT_LEAST else 1
    return _Drawn(np.random.default_rng(SEED).integers(0, n, size=(RESAMPLES, -(-n // length))), length)


def runs_differ(m: Measurements) -> float:
    """The factor by which two runs may differ on a machine whose pace varied as in this one."""
    return math.exp(PACE_DEVIATIONS * m.machine.pace.spread)


def is_pace_uneven(m: Measurements) -> bool:
    """Whether they may differ by so much for the machine's sake that a fix is not seen for certain in the next run.

    A pace stays for seconds: a shorter run, or one of few steps, does not tell how it varies.
    """
    if m.steps.count < STEPS_AT_LEAST or m.steps.length_ns < ENOUGH_NS:
        return False
    return math.exp(PACE_DEVIATIONS * m.machine.pace.beyond_chance) - 1 >= UNEVEN


def speed_interval(m: Measurements) -> tuple[float, float]:
    """The 90 % interval of the mean step (ns) of a run like this one: by this one's steps, and by how much runs differ on this machine.

    Where others use the machine, it reaches down to a run that does not wait for a core.
    """
    drawn = _drawn(m)
    ends = [np.percentile(drawn.means(step_ns), [5, 95]) for step_ns, _ in _clocks(m, Case(removed_ns=np.zeros_like(m.step_ns)))]
    low, high = min(float(low) for low, _ in ends), max(float(high) for _, high in ends)
    one_run = math.exp(max(RUN_TO_RUN, PACE_DEVIATIONS * m.machine.pace.spread) / math.sqrt(2))
    return max(low, NOTHING_NS) / one_run, high * one_run


def gain_without(m: Measurements, *stages: str) -> tuple[float, float, float] | None:
    """What the training would gain if some stages cost nothing, with its 90 % interval; None where they are all of it, or are known within
    bounds only.
    """
    share, low, high = share_interval(m, np.asarray(sum(m.ledger.of(stage) for stage in stages)))
    return None if high >= 1 or m.ledger.high is not None else (1 / (1 - share), 1 / (1 - low), 1 / (1 - high))


def share_interval(m: Measurements, part_ns: Floats) -> tuple[float, float, float]:
    """Share of the window that a part takes, and its 90 % interval. What it is thought to take may be more than there is: then all."""
    step, drawn = m.step_ns, _drawn(m)
    share = float(part_ns.sum() / step.sum())
    # Of steps most of which take no time, some draws hold no other.
    whole = drawn.means(step)
    low, high = np.percentile(np.divide(drawn.means(part_ns), whole, out=np.full_like(whole, share), where=whole > 0), [5, 95])
    return min(share, 1.0), min(float(low), 1.0), min(float(high), 1.0)
