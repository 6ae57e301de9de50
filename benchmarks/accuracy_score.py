"""Pure: what a list of trials says about verdicts and predictions."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import Any

from case_study import BASE, VARIANTS, Variant, finds, names_function, says

LARGEST_MEDIAN_LOG_ERROR = 0.10
SMALLEST_SHARE_HELD = 0.80
VARIANT = {variant.name: variant for variant in VARIANTS}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a problem, with the fixed runs beside it; `found` where its rule is among the findings, and no other one the verdict."""

    variant: str
    said: str
    found: bool
    stage: str | None
    named: bool | None
    predicted: float | None
    low: float | None
    high: float | None
    true: float | None

    @property
    def log_error(self) -> float | None:
        """|ln(predicted / true)|."""
        return abs(math.log(self.predicted / self.true)) if self.predicted and self.true else None

    @property
    def held(self) -> bool | None:
        """Whether the interval holds the true gain."""
        if self.low is None or self.high is None or self.true is None:
            return None
        return self.low <= self.true <= self.high


@dataclass(frozen=True, kw_only=True)
class Score:
    """The gate, and what it was drawn from."""

    trials: tuple[Trial, ...]
    base: tuple[str, ...]
    fixed: tuple[tuple[str, str], ...]

    def of(self, variant: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.variant == variant]

    @property
    def predicted(self) -> tuple[Trial, ...]:
        """Those of problems whose gain a rule predicts."""
        return tuple(trial for trial in self.trials if VARIANT[trial.variant].is_predicted)

    def confusion(self, variant: str) -> Counter[str]:
        return Counter(trial.said for trial in self.of(variant))

    def misses(self) -> list[str]:
        """Every way in which the gate is missed, in words."""
        found = [word for variant in VARIANTS for word in wrong_of(variant, self.of(variant.name))]
        healthy = self.base.count("healthy")
        if healthy < len(self.base) or not self.base:
            found.append(f"{BASE}: {healthy} of {len(self.base)} were called healthy")
        error = median_log_error(self.predicted)
        if error is None or error > LARGEST_MEDIAN_LOG_ERROR:
            found.append(f"median |ln(predicted/true)| is {error}, more than {LARGEST_MEDIAN_LOG_ERROR}")
        held = share_held(self.predicted)
        if held is None or held < SMALLEST_SHARE_HELD:
            found.append(f"share of intervals that hold is {held}, less than {SMALLEST_SHARE_HELD}")
        return found


def is_right(trial: Trial) -> bool:
    """Whether the rule is the verdict; of a problem whose gain nobody predicts, whether it is found."""
    variant = VARIANT[trial.variant]
    return trial.said == variant.expected if variant.is_predicted else trial.found


def wrong_of(variant: Variant, trials: list[Trial]) -> list[str]:
    right = sum(map(is_right, trials))
    staged = sum(trial.stage == variant.stage for trial in trials)
    named = sum(bool(trial.named) for trial in trials)
    found = []
    if right < len(trials):
        found.append(f"{variant.name}: the rule was right in {right} of {len(trials)}")
    if staged < len(trials):
        found.append(f"{variant.name}: the stage was right in {staged} of {len(trials)}")
    if variant.function and named < len(trials):
        found.append(f"{variant.name}: {variant.function} was named in {named} of {len(trials)}")
    return found


def median_log_error(trials: tuple[Trial, ...] | list[Trial]) -> float | None:
    """Over all trials; a trial without a prediction counts as infinitely wrong, so that silence does not help."""
    measured = [trial for trial in trials if trial.true]
    errors = [math.inf if trial.log_error is None else trial.log_error for trial in measured]
    return statistics.median(errors) if errors else None


def share_held(trials: tuple[Trial, ...] | list[Trial]) -> float | None:
    """An interval that is missing does not hold."""
    measured = [trial for trial in trials if trial.true]
    return sum(bool(trial.held) for trial in measured) / len(measured) if measured else None


def to_trial(row: dict[str, Any]) -> Trial:
    """From a raw row of the results: the problem's run and the throughputs of the fixed runs beside it."""
    variant = VARIANT[row["variant"]]
    report = row["problem"]["report"]
    own = report["throughput"]["samples_per_s"]
    beside = [value for value in row["fixed_samples_per_s"] if value]
    gain = report["findings"][0]["gain"] if report["findings"] else {"predicted": None, "low": None, "high": None}
    return Trial(
        variant=variant.name,
        said=says(report),
        found=finds(report, variant.expected),
        stage=report["verdict"]["stage"],
        named=names_function(report, variant.function) if variant.function else None,
        predicted=gain["predicted"],
        low=gain["low"],
        high=gain["high"],
        true=statistics.mean(beside) / own if beside and own else None,
    )


def to_score(raw: dict[str, Any]) -> Score:
    """The score of a results file."""
    fixed = [(row["of"], says(row["run"]["report"])) for row in raw["fixed"]]
    return Score(
        trials=tuple(to_trial(row) for row in raw["problems"]),
        base=tuple(says(row["run"]["report"]) for row in raw["fixed"] if row["base_of_round"]),
        fixed=tuple(fixed),
    )
