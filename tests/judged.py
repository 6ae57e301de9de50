"""Runs one rule on measurements that a test has built: its answer, its finding, and what that shows."""

from __future__ import annotations

from typing import Any

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose, rules
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.findings import Finding, NotJudged


def answer_of(rule: str, m: Measurements) -> Answer:
    """What the rule says of it."""
    return rules()[rule].judge(m)


def judged(rule: str, m: Measurements) -> Judged:
    """That, where it is a finding."""
    answer = answer_of(rule, m)
    assert isinstance(answer, Judged), answer
    return answer


def finding(rule: str, m: Measurements) -> Finding:
    """What it has found."""
    return judged(rule, m).finding


def unjudged(rule: str, m: Measurements) -> NotJudged | None:
    """Why it does not judge, where that is its answer."""
    answer = answer_of(rule, m)
    return answer if isinstance(answer, NotJudged) else None


def code_of(rule: str, m: Measurements) -> str | None:
    """The code of that."""
    answer = unjudged(rule, m)
    return None if answer is None else answer.reason.code


def values(found: Finding) -> dict[str, Any]:
    """The values of its evidence by name."""
    return {row.name: row.value for row in found.evidence}


def named(m: Measurements) -> list[str]:
    """The rules that find something in it, those that are folded into others too."""
    return [rule for found in diagnose(m).findings for rule in (found.rule, *found.also)]
