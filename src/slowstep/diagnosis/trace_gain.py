"""Predicted gains of fixes seen in a profiler's trace: steps as they were by steps replayed with one thing changed.

The steps that were replayed (see `slowstep.analyses.replay.replay`) stand for the window: of more steps than were replayed, the slowest
stands for itself and the others for all the rest. The interval takes in the worse and the better case of what a scenario assumes, the
spread over the replayed steps, what two runs of one training differ by (`gain.RUN_TO_RUN`), and what recording the trace may have cost:
a gain is predicted for the training without a profiler.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.recording_cost import AS_RECORDED, LESS_MOST_COST, LESS_USUAL_COST
from slowstep.analyses.replay.scenarios import SCENARIOS
from slowstep.analyses.steps.chance import SEED
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.gain import RESAMPLES, RUN_TO_RUN, unknown_gain
from slowstep.findings import Gain
from slowstep.reasons import Reason, Wording

# Of so few steps, percentiles of resampled ones are no interval: their smallest and largest are. The range of five values holds their
# median in 94 of 100 cases (1 - 2 / 2**5; the distribution of order statistics), of four in 88.
RESAMPLED_FROM = 6
# A scenario that could be replayed in fewer of the steps than this says little of the window.
JUDGED_AT_LEAST = 0.5

NO_STEP_REPLAYED = Wording("no-step-replayed", "no step was replayed")
# Why is what the table `replay` says of most of its steps.
NOT_REPLAYED = Wording("not-replayed", "{why}")


@dataclass(frozen=True, slots=True)
class _Replayed:
    """The steps in which a scenario is judged, as milliseconds: arrays of shape (steps,). `weight` is how many steps each stands for."""

    unchanged: Floats
    expected: Floats
    best: Floats
    worst: Floats
    weight: Floats


def replayed_gain(m: Measurements, scenario: str, assumes: str) -> Gain:
    """The gain of a scenario of `scenarios.py`, as a factor of throughput.

    `assumes` is the counterfactual in words. Predicted, low and high are None where the scenario is not judged; `unknown_because` then says
    why. Raises ValueError for a scenario that is not declared.
    """
    as_recorded = _replayed(m, scenario)
    if isinstance(as_recorded, Reason):
        return unknown_gain(assumes, because=as_recorded)
    without = {level: found for level in (LESS_USUAL_COST, LESS_MOST_COST) if isinstance(found := _replayed(m, scenario, level), _Replayed)}
    usual = without.get(LESS_USUAL_COST, as_recorded)
    predicted = _ratio(usual.unchanged, usual.expected, usual.weight)
    levels = (as_recorded, *without.values())
    low = min(_spread(each, each.worst)[0] for each in levels) * (1 - RUN_TO_RUN)
    high = max(_spread(each, each.best)[1] for each in levels) * (1 + RUN_TO_RUN)
    return Gain(predicted=predicted, low=min(low, predicted), high=max(high, predicted), assumes=assumes)


def removed_ms(m: Measurements, scenario: str) -> float | None:
    """Milliseconds that a scenario removes from the mean step; None where it is not judged.

    Raises ValueError for a scenario that is not declared.
    """
    replayed = _replayed(m, scenario)
    if isinstance(replayed, Reason):
        return None
    return float(np.average(replayed.unchanged - replayed.expected, weights=replayed.weight))


def _replayed(m: Measurements, scenario: str, recording: str = AS_RECORDED) -> _Replayed | Reason:
    """The judged steps of a scenario, with or without the profiler's cost, or why there are none."""
    if scenario not in SCENARIOS:
        raise ValueError(f"no such scenario: {scenario!r}")
    rows = m.replay.table.filter(pl.col("scenario") == scenario, pl.col("recording") == recording)
    if rows.is_empty():
        return NO_STEP_REPLAYED()
    judged = rows.filter(pl.col("not_judged").is_null() & pl.col("expected_ns").is_not_null())
    if judged.height < JUDGED_AT_LEAST * rows.height or judged.is_empty():
        reasons = rows["not_judged"].drop_nulls()
        return NOT_REPLAYED(why=str(reasons.mode().sort()[0])) if len(reasons) else NO_STEP_REPLAYED()
    return _Replayed(
        unchanged=_ms(judged["unchanged_ns"]),
        expected=_ms(judged["expected_ns"]),
        best=_ms(judged["best_ns"].fill_null(judged["expected_ns"])),
        worst=_ms(judged["worst_ns"].fill_null(judged["expected_ns"])),
        weight=_weights(m, judged),
    )


def _weights(m: Measurements, judged: pl.DataFrame) -> Floats:
    """How many steps of the window each replayed step stands for; the slowest is no example of the others."""
    lengths, weights = m.step_ns, np.ones(judged.height)
    slowest = judged["step"].to_numpy() == int(np.argmax(lengths)) if len(lengths) else np.zeros(judged.height, dtype=bool)
    others = int((~slowest).sum())
    if others and len(lengths) > judged.height:
        weights[~slowest] = (len(lengths) - int(slowest.sum())) / others
    return weights


def _spread(replayed: _Replayed, after: Floats) -> tuple[float, float]:
    """The smallest and largest factor of throughput that the replayed steps speak for, at 90 %."""
    before, weight = replayed.unchanged, replayed.weight
    if len(before) < RESAMPLED_FROM:
        factors = before / np.maximum(after, 1e-6)
        # What all steps together give stands beside what single ones do: the slowest alone may be far from all others.
        whole = _ratio(before, after, weight)
        typical = factors[weight >= weight.max()]
        return min(whole, float(typical.min())), max(whole, float(typical.max()))
    drawn = np.random.default_rng(SEED).integers(0, len(before), size=(RESAMPLES, len(before)))
    factors = (before * weight)[drawn].sum(axis=1) / np.maximum((after * weight)[drawn].sum(axis=1), 1e-6)
    low, high = np.percentile(factors, [5, 95])
    return float(low), float(high)


def _ratio(before: Floats, after: Floats, weight: Floats) -> float:
    return float((before * weight).sum() / max(float((after * weight).sum()), 1e-6))


def _ms(ns: pl.Series) -> Floats:
    return ns.cast(pl.Float64).to_numpy() / 1e6
