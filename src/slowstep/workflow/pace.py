"""At what pace a training goes, as the plan of an experiment needs it: the length of a step, and after how many something comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from slowstep.analyses.over_time import EPOCH_CHANGE
from slowstep.experiments.design import LONGEST_BLOCK_MS, common_period

# What holds less of the time does little to a block that has one of it more or less: whole blocks of a long period would cost more rounds.
_PERIODIC_SHARE: Final = 0.05
# Periods are means of what was seen: one that is no whole number was not regular.
_REGULAR: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Mean length of a step, and the steps in which everything that recurs is whole (1: nothing does, or not regularly)."""

    step_ms: float
    period_steps: int


def find_pace(report: dict[str, Any], *, epochs_first: bool = False) -> Pace:
    """The pace by the report of the lead-in: the events that take most time first, for as long as a block stays short.

    `epochs_first`: a change of epoch comes before what takes more. Levers with a loader of their own change what it takes, and how many
    batches lie ready after it.
    """
    step_ms = 1000.0 / report["throughput"]["steps_per_s"]
    period = 1
    for event in sorted(report["run"].get("periodic", []), key=lambda row: (epochs_first and row["name"] != EPOCH_CHANGE, -row["share"])):
        every = event["every_steps"]
        if every is None or event["share"] < _PERIODIC_SHARE or abs(every - round(every)) > _REGULAR * every or round(every) < 2:
            continue
        together = common_period((period, round(every)))
        if period == 1 or together * step_ms <= LONGEST_BLOCK_MS:
            period = together
    return Pace(step_ms=step_ms, period_steps=period)


def receipt_ns(report: dict[str, Any]) -> float:
    """What receiving batches that lie ready costs a step, ns: the ledger's `transport`."""
    preprocess = next(row for row in report["ledger"] if row["stage"] == "preprocess")
    found = math.fsum(part["ms_per_step"] or 0.0 for part in preprocess["parts"] if part["name"] == "transport")
    return found * 1e6
