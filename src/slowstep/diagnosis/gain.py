"""Predicted gains: T / max(T - r, B), with a 90 % interval.

r is what a fix removes from a step, B the largest demand per step of what then runs beside it. The interval comes from a block bootstrap
over blocks of steps (at least a period long), widened by the worse and the better case of what the counterfactual assumes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps import Floats
from slowstep.findings import Gain

RESAMPLES = 400
SEED = 20200823
# Blocks must be long enough that neighbouring steps' correlation is inside them, and many enough to be drawn from.
BLOCK_AT_LEAST = 5
BLOCKS_AT_LEAST = 8
# Two runs of one training differ even on a quiet machine (memory layout, neighbours on the host). The spread of healthy
# against healthy runs, 5th to 95th percentile, measured by benchmarks/accuracy.py: see docs/accuracy.md.
RUN_TO_RUN = 0.04


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One reading of the assumptions: ns per step that the fix removes, and the largest demand B beside what is left."""

    removed_ns: Floats
    beside_ns: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Counterfactual:
    """What the world would be like: in words, as expected, at worse and at better."""

    assumes: str
    expected: Case
    worse: Case
    better: Case
    # Samples per step after the fix / before (larger batches); 1 for all other fixes.
    samples_ratio: float = 1.0


def predict(m: Measurements, c: Counterfactual) -> Gain:
    """The gain of a counterfactual, as a factor of throughput."""
    step = m.step_ns
    blocks = _blocks(m)
    expected = _factor(step, c.expected, np.ones(len(step)), c.samples_ratio)
    draws = [
        [_factor(t, case, weight, c.samples_ratio) for weight in blocks] for t in _clocks(m) for case in (c.expected, c.worse, c.better)
    ]
    low = min(float(np.percentile(values, 5)) for values in draws) * (1 - RUN_TO_RUN)
    high = max(float(np.percentile(values, 95)) for values in draws) * (1 + RUN_TO_RUN)
    return Gain(predicted=expected, low=min(low, expected), high=max(high, expected), assumes=c.assumes)


def _clocks(m: Measurements) -> list[Floats]:
    """Wall time per step and, where others use the machine, also without the training thread's run-queue delay."""
    return [m.step_ns, m.step_ns - m.delay_ns] if m.load.busy else [m.step_ns]


def _factor(step: Floats, case: Case, weight: Floats, samples_ratio: float) -> float:
    """T / max(T - r, B) over the steps, each counted as often as `weight` says."""
    whole = float(weight.sum())
    t = float((step * weight).sum()) / whole
    r = float((case.removed_ns * weight).sum()) / whole
    after = max(t - r, case.beside_ns, 1.0)
    return samples_ratio * t / after


def _blocks(m: Measurements) -> list[Floats]:
    """Bootstrap weights: how often each step is drawn, in blocks of neighbouring steps."""
    n = m.steps.count
    length = max(BLOCK_AT_LEAST, m.steps.period if m.steps.whole_periods else 1)
    length = max(1, min(length, n // BLOCKS_AT_LEAST)) if n >= BLOCKS_AT_LEAST else 1
    count = -(-n // length)
    rng = np.random.default_rng(SEED)
    starts = rng.integers(0, n, size=(RESAMPLES, count))
    offsets = np.arange(length)
    return [np.bincount(((row[:, None] + offsets) % n).ravel(), minlength=n).astype(np.float64) for row in starts]


def share_interval(m: Measurements, part_ns: Floats) -> tuple[float, float, float]:
    """Share of the window that a part takes, and its 90 % interval."""
    step = m.step_ns
    draws = [float((part_ns * w).sum() / (step * w).sum()) for w in _blocks(m)]
    low, high = np.percentile(draws, [5, 95])
    return float(part_ns.sum() / step.sum()), float(low), float(high)
