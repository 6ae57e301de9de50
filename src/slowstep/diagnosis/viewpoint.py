"""What of a verdict depends on what was measured: functions that the engine asks in one sequence, of a recording and of a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.law import Answers
from slowstep.findings import Finding, NotJudged
from slowstep.reasons import Reason, Value, Wording


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why it is not known whether a training is healthy, and the levers that would tell (None: none would).

    `change` is what has to be done by hand before another run of the same command can tell more, `rule` that of the finding that leaves
    the doubt, if one does, `by_fault` whether an error of slowstep's own does.
    """

    reason: Reason
    levers: str | None = None
    change: str | None = None
    rule: str | None = None
    by_fault: bool = False


def by_hand(what: Wording, remedy: str, **values: Value) -> Doubt:
    """The doubt that `what` raises where only a change of the script, or of how it is recorded, would tell more."""
    return Doubt(what(remedy=remedy, **values), change=remedy)


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewpoint:
    """How a training is judged by what was measured of it. All else is the same for all (`law.py`, `engine.py`)."""

    # The topics by which it judges.
    topics: tuple[str, ...]
    # The answers, with as much of the findings as may be claimed.
    claimed: Callable[[Measurements, Answers], Answers]
    # What is said, instead, of findings that are not claimed.
    unclaimed: tuple[Callable[[Measurements, Answers], tuple[NotJudged, ...]], ...]
    # Why nothing can be said for certain of the training as a whole, whatever was found.
    open_at_all: Callable[[Measurements, Answers], Doubt | None]
    # What of the training the verdict speaks of, where that is a part.
    scope: Callable[[Measurements], Reason | None]
    # What would tell more of time that nothing explains, and what of that is to be done by hand before another run.
    explain_more: Callable[[Measurements], tuple[Value, str | None]]
    # Why the finding that would be the bottleneck is none, or not the first of them.
    not_the_cause: Callable[[Measurements, Answers, Finding], Doubt | None]
    # Why a training without a bottleneck cannot be called healthy.
    not_healthy: Callable[[Measurements, Answers], Doubt | None]
    # What is said of a healthy one, by its largest stage.
    healthy: Callable[[Measurements, str], Reason]
