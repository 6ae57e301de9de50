"""Pure: what the rows of prove.py say of its proofs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The bar: median of |ln(measured / true)|, and how often something may be proved of a healthy training (one-sided 95 % over all levers).
LARGEST_MEDIAN_LOG_ERROR = 0.04
FALSE_PROOFS = 0.05
# Not a false proof on the healthy base: on two cores batches made before were truly 1.13 to 1.16 times as fast (three pairs of plain runs).
TRUE_ON_THE_BASE = ("mock-loader",)
# Two-sided 95 % points of Student's t, by degrees of freedom (any table); beyond ten 2.1 is close enough.
T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23}


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A case over all rounds: gains measured (value, low, high), the true ones, and both ends of the interval of their mean."""

    name: str
    measured: tuple[tuple[float, float, float], ...]
    reasons: tuple[str, ...]
    true: float
    true_low: float | None
    true_high: float | None
    took_s: float

    @property
    def log_error(self) -> float | None:
        """|ln(median measured / true)|."""
        return abs(math.log(statistics.median(each[0] for each in self.measured) / self.true)) if self.measured else None

    @property
    def overlapping(self) -> int:
        """Rounds whose interval overlaps that of the true gain (holds it, where that has none)."""
        low, high = self.true_low or self.true, self.true_high or self.true
        return sum(each[1] <= high and low <= each[2] for each in self.measured)


def score(raw: Mapping[str, Any]) -> list[Scored]:
    """Every case of a results file."""
    names = dict.fromkeys(row["case"] for row in raw["rows"])
    return [_scored(name, [row for row in raw["rows"] if row["case"] == name]) for name in names]


def _scored(name: str, rows: Sequence[Mapping[str, Any]]) -> Scored:
    tried = [next((each for each in row["prove"]["rows"] if each["lever"] == row["lever"]), None) for row in rows]
    gains = [each["gain"] for each in tried if each is not None and each["gain"] is not None]
    whole = [gain for gain in gains if gain["low"] is not None and gain["high"] is not None]
    logs = [math.log(pair["fixed"] / pair["problem"]) for row in rows for pair in row["plain"]]
    mean = statistics.fmean(logs) if logs else 0.0
    half = T_95.get(len(logs) - 1, 2.1) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None
    return Scored(
        name=name,
        measured=tuple((gain["value"], gain["low"], gain["high"]) for gain in whole),
        reasons=tuple(each["reason"] for each in tried if each is not None and each["gain"] is None and each["reason"]),
        true=math.exp(mean),
        true_low=None if half is None else math.exp(mean - half),
        true_high=None if half is None else math.exp(mean + half),
        took_s=statistics.median(row["prove"]["took_s"] for row in rows),
    )


def false_proofs(raw: Mapping[str, Any]) -> tuple[int, int]:
    """Runs of the healthy base in which anything was proved, and runs in all."""
    proved = [any(row["verdict"] == "proved" and row["lever"] not in TRUE_ON_THE_BASE for row in run["rows"]) for run in raw["healthy"]]
    return sum(proved), len(proved)


def median_log_error(raw: Mapping[str, Any]) -> float | None:
    """Over the cases that have a true gain."""
    errors = [each.log_error for each in score(raw) if each.log_error is not None]
    return statistics.median(errors) if errors else None


def allowed(runs: int) -> int:
    """The most runs with a false proof that an error rate of FALSE_PROOFS makes at all likely (95 % point of the binomial)."""
    below, count = 0.0, -1
    while below < 0.95:
        count += 1
        below += math.comb(runs, count) * FALSE_PROOFS**count * (1 - FALSE_PROOFS) ** (runs - count)
    return count


def misses(raw: Mapping[str, Any]) -> list[str]:
    """Every way in which the bar is missed, in words."""
    found = []
    error = median_log_error(raw)
    if error is not None and error > LARGEST_MEDIAN_LOG_ERROR:
        found.append(f"median |ln| is {error:.3f}, more than {LARGEST_MEDIAN_LOG_ERROR}")
    for each in score(raw):
        if not each.measured:
            found.append(f"{each.name}: never measured ({', '.join(dict.fromkeys(each.reasons)) or 'no reason given'})")
        elif each.overlapping < len(each.measured):
            found.append(f"{each.name}: {len(each.measured) - each.overlapping} of {len(each.measured)} intervals miss the true gain's")
    wrong, runs = false_proofs(raw)
    if runs and wrong > allowed(runs):
        found.append(f"something was proved of the healthy base in {wrong} of {runs} runs, {allowed(runs)} may be")
    return found
