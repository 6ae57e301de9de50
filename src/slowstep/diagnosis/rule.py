"""What a rule is: a pure function of the measurements that answers with a finding, None (looked, and clean), or why it cannot judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slowstep.analyses.measurements import TOPICS, Measurements
from slowstep.diagnosis.gain import AnyCounterfactual
from slowstep.diagnosis.provider import HeldTime, Provider, Unsure
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

    It reads `topics` of the measurements, and is asked where all of these are there; where its evidence differs by what was measured,
    where one of `providers` has those that it reads besides. Access to others fails in tests (`tests/declared.py`).
    `advisory` where all that it finds is advice: then it leaves no verdict in doubt where it could not judge.
    """

    name: str
    stages: tuple[str, ...]
    topics: tuple[str, ...]
    judge: Callable[[Measurements], Answer]
    providers: tuple[Provider, ...] = ()
    advisory: bool = False

    def __post_init__(self) -> None:
        if unknown := {*self.topics, *(topic for provider in self.providers for topic in provider.topics)} - TOPICS:
            raise ValueError(f"rule {self.name!r} reads what is no topic: {', '.join(sorted(unknown))}")

    def is_asked(self, m: Measurements) -> bool:
        """Whether all that it needs is known."""
        return m.has(*self.topics) and (not self.providers or any(provider.knows(m) for provider in self.providers))


def judge_provided(m: Measurements, rule: str, providers: Iterable[Provider]) -> Answer:
    """The answer of a rule to the evidence that one of its providers has found: what is worth a finding is one, whoever provides it."""
    found = next(provider for provider in providers if provider.knows(m)).find(m)
    if found is None or (isinstance(found, HeldTime) and found.share < found.at_least):
        return None
    if isinstance(found, Unsure):
        return _unjudged(rule, found)
    return _judged(rule, found) if found.unsure is None else _unjudged(rule, found.unsure)


def _unjudged(rule: str, unsure: Unsure) -> NotJudged:
    return NotJudged(rule=rule, reason=unsure.reason, advisory=unsure.advisory, lever=unsure.lever, change=unsure.change)


def _judged(rule: str, held: HeldTime) -> Judged:
    found = held.details()
    finding = Finding(
        rule=rule,
        stage=found.stage,
        title=found.title,
        opens_with_name=found.opens_with_name,
        share=held.share,
        share_low=held.low,
        share_high=held.high,
        claims=found.claims,
        evidence=found.evidence,
        gain=found.gain,
        fixes=found.fixes,
        names_cause=found.names_cause,
    )
    return Judged(finding=finding, counterfactual=found.counterfactual)
