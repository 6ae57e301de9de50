"""What a rule is: a pure function of the measurements that answers with a finding, None (looked, and clean), or why it cannot judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slowstep.analyses.measurements import TOPICS, Measurements
from slowstep.diagnosis.gain import AnyCounterfactual
from slowstep.findings import Finding, NotJudged

# The least share of the window that a finding may claim (docs/definitions.md): below it neither problem nor gain is worth a line.
CLAIM = 0.03


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A finding, with the counterfactual that its gain was predicted from; None where the gain is unknown."""

    finding: Finding
    counterfactual: AnyCounterfactual | None


Answer = Judged | NotJudged | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule: named for its problem, never for the cure. `stages` are those that it may blame.

    It reads `topics` of the measurements, and is asked where all of these are there; `where_known` are those that it reads besides, where
    they are there. Access to others fails in tests (`tests/declared.py`).
    `advisory` where all that it finds is advice: then it leaves no verdict in doubt where it could not judge.
    """

    name: str
    stages: tuple[str, ...]
    topics: tuple[str, ...]
    judge: Callable[[Measurements], Answer]
    where_known: tuple[str, ...] = ()
    advisory: bool = False

    def __post_init__(self) -> None:
        if unknown := {*self.topics, *self.where_known} - TOPICS:
            raise ValueError(f"rule {self.name!r} reads what is no topic: {', '.join(sorted(unknown))}")

    def is_asked(self, m: Measurements) -> bool:
        """Whether all that it needs is known."""
        return m.has(*self.topics)
