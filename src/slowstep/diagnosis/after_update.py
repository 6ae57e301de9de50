"""What the rules about the time after an update have in common: which part is whose."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.functions import shown
from slowstep.analyses.ledger import Part
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.timed_gaps import GapFunction

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
