"""Predicted gains of fixes that were replayed: steps as they were by steps replayed with one thing changed.

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
from slowstep.analyses.replay.unjudged import reason_of
from slowstep.analyses.steps.chance import SEED
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.gain import RESAMPLES, RUN_TO_RUN, StepAfter, unknown_gain
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
class Replayed:
    """A counterfactual whose steps were replayed: the name of its scenario in `scenarios.py`, and in words what it assumes.

    What runs beside a step is in its replay, so nothing more can bind than what is left of it. All that is asked of a scenario which is
    not declared raises ValueError.
    """

    scenario: str
    assumes: str

    def gain(self, m: Measurements) -> Gain:
        """Predicted, low and high are None where the scenario is not judged; `unknown_because` then says why."""
        as_recorded = _replays(m, self.scenario)
        if isinstance(as_recorded, Reason):
            return unknown_gain(self.assumes, because=as_recorded)
        without = _without_recording(m, self.scenario)
        predicted = _without_usual_cost(without, as_recorded).predicted
        levels = (as_recorded, *without.values())
        low = min(_spread(each, each.worst)[0] for each in levels) * (1 - RUN_TO_RUN)
        high = max(_spread(each, each.best)[1] for each in levels) * (1 + RUN_TO_RUN)
        return Gain(predicted=predicted, low=min(low, predicted), high=max(high, predicted), assumes=self.assumes)

    def after(self, m: Measurements) -> StepAfter | None:
        """What the mean step would take; None where the scenario is not judged, and in a trace that marks no steps."""
        as_recorded = _replays(m, self.scenario)
        if isinstance(as_recorded, Reason) or m.marks.is_window:
            return None
        usual = _without_usual_cost(_without_recording(m, self.scenario), as_recorded)
        return StepAfter(own_ns=m.mean_step_ns / usual.predicted)

    def removed_ms(self, m: Measurements) -> float | None:
        """Milliseconds that it removes from the mean step, as recorded; None where it is not judged."""
        replays = _replays(m, self.scenario)
        if isinstance(replays, Reason):
            return None
        return float(np.average(replays.unchanged - replays.expected, weights=replays.weight))


@dataclass(frozen=True, slots=True)
class _Replays:
    """The steps in which a scenario is judged, as milliseconds: arrays of shape (steps,). `weight` is how many steps each stands for."""

    unchanged: Floats
    expected: Floats
    best: Floats
    worst: Floats
    weight: Floats

    @property
    def predicted(self) -> float:
        return _ratio(self.unchanged, self.expected, self.weight)


def _without_recording(m: Measurements, scenario: str) -> dict[str, _Replays]:
    """The same without the profiler's cost, by how much that is taken to be, as far as that is known."""
    found = ((level, _replays(m, scenario, level)) for level in (LESS_USUAL_COST, LESS_MOST_COST))
    return {level: replays for level, replays in found if isinstance(replays, _Replays)}


def _without_usual_cost(without: dict[str, _Replays], as_recorded: _Replays) -> _Replays:
    return without.get(LESS_USUAL_COST, as_recorded)


def _replays(m: Measurements, scenario: str, recording: str = AS_RECORDED) -> _Replays | Reason:
    """The judged steps of a scenario, with or without the profiler's cost, or why there are none."""
    if scenario not in SCENARIOS:
        raise ValueError(f"no such scenario: {scenario!r}")
    rows = m.replay.table.filter(pl.col("scenario") == scenario, pl.col("recording") == recording)
    if rows.is_empty():
        return NO_STEP_REPLAYED()
    judged = rows.filter(pl.col("not_judged").is_null() & pl.col("expected_ns").is_not_null())
    if judged.height < JUDGED_AT_LEAST * rows.height or judged.is_empty():
        return _why_not(rows)
    return _Replays(
        unchanged=_ms(judged["unchanged_ns"]),
        expected=_ms(judged["expected_ns"]),
        best=_ms(judged["best_ns"].fill_null(judged["expected_ns"])),
        worst=_ms(judged["worst_ns"].fill_null(judged["expected_ns"])),
        weight=_weights(m, judged),
    )


def _why_not(rows: pl.DataFrame) -> Reason:
    """What most of these steps were not judged for, as it was in the first of them."""
    unjudged = rows.drop_nulls("not_judged").sort("step").rows_by_key("not_judged", named=True)
    if not unjudged:
        return NO_STEP_REPLAYED()
    code, of_code = max(unjudged.items(), key=lambda each: len(each[1]))
    return NOT_REPLAYED(why=reason_of(code, of_code[0]["not_judged_values"]))


def _weights(m: Measurements, judged: pl.DataFrame) -> Floats:
    """How many steps of the window each replayed step stands for; the slowest is no example of the others."""
    lengths, weights = m.step_ns, np.ones(judged.height)
    slowest = judged["step"].to_numpy() == int(np.argmax(lengths)) if len(lengths) else np.zeros(judged.height, dtype=bool)
    others = int((~slowest).sum())
    if others and len(lengths) > judged.height:
        weights[~slowest] = (len(lengths) - int(slowest.sum())) / others
    return weights


def _spread(replayed: _Replays, after: Floats) -> tuple[float, float]:
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
