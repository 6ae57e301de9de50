"""At what pace a training goes, as the plan of an experiment needs it: the length of a step, and after how many something comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from slowstep.analyses.compute.fixed_cost import PER_BATCH
from slowstep.analyses.over_time.event_name import EventName
from slowstep.prove.stats.design import LONGEST_BLOCK_MS, common_period

# What holds less of the time does little to a block that has one of it more or less: whole blocks of a long period would cost more rounds.
_PERIODIC_SHARE: Final = 0.05
# Periods are means of what was seen: one that is no whole number was not regular.
_REGULAR: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPace:
    """Mean length of a step, the steps in which everything that recurs is whole (1: nothing does, or not regularly), and those in which
    every loader that feeds the training is read at least once. `is_asynchronous`: its calls return before their work is done;
    `shares_cores`: which is done by the processor that makes them.
    """

    step_ms: float
    period_steps: int
    turn_steps: int = 1
    is_asynchronous: bool = False
    shares_cores: bool = False


def find_pace(report: dict[str, Any], *, epochs_first: bool = False) -> StepPace:
    """The pace by the report of the lead-in: the events that take most time first, for as long as a block stays short.

    `epochs_first`: a change of epoch comes before what takes more. Levers with a loader of their own change what it takes, and how many
    batches lie ready after it; and where they make steps shorter it is more of them.
    """
    step_ms = 1000.0 / report["throughput"]["steps_per_s"]
    turn = report["run"].get("steps_per_batch", 1.0)
    turns, period = (round(turn), round(turn)) if _is_regular(turn) else (math.ceil(turn), 1)
    fastest = max((finding["gain"]["predicted"] or 1.0 for finding in report["findings"]), default=1.0)
    first = EventName.EPOCH_CHANGE if epochs_first else None
    for event in sorted(report["run"].get("periodic", []), key=lambda row: (row["name"] != first, -row["share"])):
        every = event["every_steps"]
        share = event["share"] * (fastest if event["name"] == first else 1.0)
        if every is None or share < _PERIODIC_SHARE or not _is_regular(every) or round(every) < 2:
            continue
        together = common_period((period, round(every)))
        if period <= turns or together * step_ms <= LONGEST_BLOCK_MS:
            period = together
    is_asynchronous = bool(report["run"].get("asynchronous"))
    shares_cores = is_asynchronous and report["run"].get("device") == "cpu"
    return StepPace(step_ms=step_ms, period_steps=period, turn_steps=turns, is_asynchronous=is_asynchronous, shares_cores=shares_cores)


def _is_regular(every: float) -> bool:
    return abs(every - round(every)) <= _REGULAR * every


def receipt_ns(report: dict[str, Any]) -> float:
    """What receiving batches that lie ready costs a step, ns: the ledger's transport, and what loaders without workers take besides."""
    preprocess = next(row for row in report["ledger"] if row["stage"] == "preprocess")
    found = math.fsum(part["ms_per_step"] or 0.0 for part in preprocess["parts"] if part["kind"] in PER_BATCH)
    return found * 1e6
