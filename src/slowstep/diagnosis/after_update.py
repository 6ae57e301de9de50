"""What the rules about the time after an update have in common: which part is whose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.functions import shown
from slowstep.analyses.ledger import COLLECTING, Part
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps import Floats
from slowstep.analyses.timed_gaps import GapFunction
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.lever_specs import seldom, stub
from slowstep.diagnosis.rule import CLAIM, Judged
from slowstep.diagnosis.trainer_side import WORSE_BESIDE, delay_share, producers_beside_ns, with_core_delay
from slowstep.findings import Evidence, Finding, Fix

# A share that is known from calls timed in a few gaps, either way: timing slows Python code, and what that costs is taken out by estimate.
TIMED_SPREAD = 0.15
# The fix that is advised for what need not run after every update: once in so many steps.
EVERY = 50
# A function is a logger, or a metric, when it spends at least half of its time in such code.
MOSTLY = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A function that runs after every update, and the ledger parts that are its."""

    function: GapFunction
    parts: tuple[Part, ...]
    where: str


def told(m: Measurements) -> list[Told]:
    """Functions that were timed in gaps, with their parts."""
    found = []
    for function in m.work.gaps.functions if m.work.gaps is not None else ():
        where = f"{shown(function.file, m.trainer.facts.script)}:{function.line}"
        parts = tuple(part for part in m.ledger.timed if part[1] == f"{function.name} ({where})")
        if parts:
            found.append(Told(function=function, parts=parts, where=where))
    return found


def is_logger(function: GapFunction) -> bool:
    """Whether a function mostly writes log lines, event files or to the terminal."""
    return function.logging >= MOSTLY


def is_metric(function: GapFunction) -> bool:
    """Whether a function mostly judges results, and is no logger."""
    return function.metrics >= MOSTLY and not is_logger(function)


def better_named(m: Measurements, part: Part) -> bool:
    """Whether another rule names the cause of a part better than its function's name does."""
    return any(part in entry.parts and (is_logger(entry.function) or is_metric(entry.function)) for entry in told(m))


def costliest(m: Measurements, belongs: Callable[[GapFunction], bool]) -> Told | None:
    """Of the functions that belong, the one that holds most time; None where there is none."""
    return max((entry for entry in told(m) if belongs(entry.function)), key=lambda entry: _total_ns(m, entry.parts), default=None)


def call_seldom(m: Measurements, entry: Told, *, rule: str, does: str, nature: Evidence, fixes: tuple[Fix, ...]) -> Judged | None:
    """The finding that a function is called after every update where once in EVERY steps would do; None where it holds too little.

    `does` says in the title what the function does, `nature` is the evidence for that.
    """
    removed = np.sum([with_core_delay(m, part) for part in entry.parts], axis=0) * (1 - 1 / EVERY)
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    name = entry.function.name
    counterfactual = shortened(m, removed, TIMED_SPREAD, queued=delay_share(m, *entry.parts), assumes=f"{name} runs once in {EVERY} steps")
    finding = Finding(
        rule=rule,
        stage=max(entry.parts, key=lambda part: _total_ns(m, (part,)))[0],
        title=f"{name} ({entry.where}) {does} after every step and takes {share:.0%} of the time",
        share=share,
        share_low=low * (1 - TIMED_SPREAD),
        share_high=min(high * (1 + TIMED_SPREAD), 1.0),
        claims=tuple(dict.fromkeys(part[1] for part in entry.parts)),
        evidence=_evidence(m, entry, share, nature, removed),
        gain=predict(m, counterfactual),
        fixes=fixes,
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def lever_of(m: Measurements, entry: Told) -> str | None:
    """What tries that fix: all but one of so many calls of the function do nothing."""
    return seldom(stub(m, entry.function.name, entry.function.file), EVERY)


def _total_ns(m: Measurements, parts: tuple[Part, ...]) -> float:
    return sum(m.ledger.total(*part) for part in parts)


def _evidence(m: Measurements, entry: Told, share: float, nature: Evidence, removed: Floats) -> tuple[Evidence, ...]:
    return (
        Evidence(name="function", value=entry.function.name, unit="", where=entry.where),
        Evidence(name="after the update", value=share, unit="share of window", threshold=CLAIM),
        nature,
        Evidence(name="calls of it", value=round(entry.function.told_per_gap, 1), unit="per step"),
        Evidence(name="timed in", value=m.work.gaps.gaps if m.work.gaps is not None else None, unit="gaps"),
        Evidence(name="removed per step", value=float(removed.mean()) / 1e6, unit="ms"),
    )


def shortened(m: Measurements, removed: Floats, spread: float, *, queued: float, assumes: str) -> Counterfactual:
    """The time after the update without `removed`, which is known to within `spread` of itself; `queued` of it is delay."""
    beside = producers_beside_ns(m, spared_cpu_ns=float(removed.mean()))
    gap = m.ledger.of("output") + m.ledger.of("store") - m.ledger.of("output", COLLECTING)
    return Counterfactual(
        assumes=assumes,
        expected=Case(removed_ns=removed, beside_ns=beside, delay_share=queued),
        worse=Case(removed_ns=removed * (1 - spread), beside_ns=WORSE_BESIDE * beside, delay_share=queued),
        better=Case(removed_ns=np.minimum(removed * (1 + spread), np.maximum(gap, removed)), beside_ns=beside, delay_share=queued),
    )
