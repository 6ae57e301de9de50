"""Which of the levers that rules name can be made in this training: what no framework in it makes is no advice."""

from __future__ import annotations

from dataclasses import replace

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.lever_specs import loads
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.findings import Finding, Fix, NotJudged
from slowstep.record.experiment.implementations import can_be_made
from slowstep.record.experiment.lever_text import parse_spec


def is_made(m: Measurements, lever: str) -> bool:
    """Whether a lever, as it is written, changes something here; of a trace it is not known, and not asked."""
    if not m.has("trainer"):
        return True
    name = parse_spec(lever).name
    beneath = m.training.words.rests_on
    computes = None if beneath is None else beneath.name
    return can_be_made(name, _trains(m), None, computes=computes) or can_be_made(name, (), loads(m))


def with_made_levers(m: Measurements, answer: Answer) -> Answer:
    """The answer of a rule without the levers that change nothing here."""
    if isinstance(answer, Judged):
        return replace(answer, finding=_kept(m, answer.finding))
    if isinstance(answer, NotJudged):
        return replace(answer, lever=_made(m, answer.lever))
    return answer


def _kept(m: Measurements, finding: Finding) -> Finding:
    return replace(finding, fixes=tuple(_with_made(m, fix) for fix in finding.fixes))


def _with_made(m: Measurements, fix: Fix) -> Fix:
    return replace(fix, lever=_made(m, fix.lever), bounded_by=_made(m, fix.bounded_by), lever_in_doubt=_made(m, fix.lever_in_doubt))


def _made(m: Measurements, lever: str | None) -> str | None:
    return lever if lever is not None and is_made(m, lever) else None


def _trains(m: Measurements) -> tuple[str, ...]:
    """The framework that updates, and the one whose loop it is."""
    return (m.trainer.facts.framework, m.training.words.name)
