"""What a rule is: a pure function of the measurements that answers with a finding, None (looked, and clean), or why it cannot judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import AnyCounterfactual
from slowstep.findings import Finding, NotJudged

# The least share of the window that a finding may claim (docs/definitions.md): below it neither problem nor gain is worth a line.
CLAIM = 0.03


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A finding, with the counterfactual that its gain was predicted from; None where the gain is unknown."""

    finding: Finding
    counterfactual: AnyCounterfactual[Any] | None  # of such measurements as the rule judges


Answer = Judged | NotJudged | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule: named for its problem, never for the cure. `stages` are those that it may blame.

    `judge` judges what was recorded of a run, `judge_trace` what a profiler's trace shows; a rule has at least one of them.
    `advisory` where all that it finds is advice: then it leaves no verdict in doubt where it could not judge.
    """

    name: str
    stages: tuple[str, ...]
    judge: Callable[[Measurements], Answer] | None = None
    judge_trace: Callable[[Measurements], Answer] | None = None
    advisory: bool = False

    def __post_init__(self) -> None:
        if self.judge is None and self.judge_trace is None:
            raise ValueError(f"rule {self.name!r} judges nothing")
