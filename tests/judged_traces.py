"""Runs one rule on the measurements of a trace, for tests: its answer, its finding, or why it did not judge."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import rules
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.findings import Evidence, Finding, NotJudged
from slowstep.reasons import Reason


def judged(rule: str, m: Measurements) -> Answer:
    return rules()[rule].judge(m)


def finding(rule: str, m: Measurements) -> Finding:
    answer = judged(rule, m)
    assert isinstance(answer, Judged), answer
    return answer.finding


def evidence(found: Finding, name: str) -> Evidence:
    """The first row whose name begins so."""
    return next(row for row in found.evidence if row.name.startswith(name))


def reason(rule: str, m: Measurements) -> Reason:
    answer = judged(rule, m)
    assert isinstance(answer, NotJudged), answer
    assert answer.rule == rule
    return answer.reason
