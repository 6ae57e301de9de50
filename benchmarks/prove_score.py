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


# Value, low and high end.
Ends = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A case: of each round the gain that was measured beside the true one of the same minutes. `took_s` is a median."""

    name: str
    measured: tuple[Ends, ...]
    true: tuple[Ends, ...]
    reasons: tuple[str, ...]
    took_s: float

    @property
    def log_error(self) -> float | None:
        """|ln(measured / true)|, the median over rounds of what is inside."""
        logs = [math.log(mine[0] / true[0]) for mine, true in zip(self.measured, self.true, strict=True)]
        return abs(statistics.median(logs)) if logs else None

    @property
    def overlapping(self) -> int:
        """Rounds in which both intervals overlap."""
        return sum(mine[1] <= true[2] and true[1] <= mine[2] for mine, true in zip(self.measured, self.true, strict=True))


def score(raw: Mapping[str, Any]) -> list[Scored]:
    """Every case of a results file."""
    names = dict.fromkeys(row["case"] for row in raw["rows"])
    return [_scored(name, [row for row in raw["rows"] if row["case"] == name]) for name in names]


def _scored(name: str, rows: Sequence[Mapping[str, Any]]) -> Scored:
    tried = [next((each for each in row["prove"]["rows"] if each["lever"] == row["lever"]), None) for row in rows]
    gains = [None if each is None or each["gain"] is None or each["gain"]["low"] is None else each["gain"] for each in tried]
    known = [(gain, true) for gain, true in zip(gains, _true(rows), strict=True) if gain is not None and gain["high"] is not None]
    return Scored(
        name=name,
        measured=tuple((gain["value"], gain["low"], gain["high"]) for gain, _ in known),
        true=tuple(true for _, true in known),
        reasons=tuple(each["reason"] for each in tried if each is not None and each["gain"] is None and each["reason"]),
        took_s=statistics.median(row["prove"]["took_s"] for row in rows),
    )


def _true(rows: Sequence[Mapping[str, Any]]) -> list[Ends]:
    """Of each round: 1 where the lever gains nothing, else by its pairs of plain runs.

    What a fix gains differs from machine to machine and from hour to hour, so each round has a mean of its own. How far single pairs are
    from it is taken to be the same in all rounds of a case: of three pairs alone nobody knows it.
    """
    logs = [[math.log(pair["fixed"] / pair["problem"]) for pair in row["plain"]] for row in rows]
    free = sum(max(len(each) - 1, 0) for each in logs)
    squares = sum((value - statistics.fmean(each)) ** 2 for each in logs if each for value in each)
    half = T_95.get(free, 2.1) * math.sqrt(squares / free) if free else 0.0
    return [_ends(statistics.fmean(each), half / math.sqrt(len(each))) if each else (1.0, 1.0, 1.0) for each in logs]


def _ends(mean: float, half: float) -> Ends:
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def false_proofs(raw: Mapping[str, Any]) -> tuple[int, int]:
    """Runs of the healthy base in which anything was proved, and runs in all."""
    proved = [any(row["verdict"] == "proved" and row["lever"] not in TRUE_ON_THE_BASE for row in run["rows"]) for run in raw["healthy"]]
    return sum(proved), len(proved)


def median_log_error(raw: Mapping[str, Any]) -> float | None:
    """Over all cases that were measured."""
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
        elif missing := len(each.measured) - each.overlapping:
            found.append(f"{each.name}: {missing} of {len(each.measured)} intervals miss that of the true gain of the same round")
    wrong, runs = false_proofs(raw)
    if runs and wrong > allowed(runs):
        found.append(f"something was proved of the healthy base in {wrong} of {runs} runs, {allowed(runs)} may be")
    return found


def known_in_s(raw: Mapping[str, Any]) -> tuple[list[float], int]:
    """Seconds, without start-up and lead-in, after which single levers were known to the precision asked for, and experiments in all."""
    experiments = [row["prove"]["experiment"] for row in raw["rows"] if row["prove"]["experiment"]]
    return [each["took_s"] for each in experiments if each["ended_by"] == "precision"], len(experiments)
