"""What the captured steps of a training tell of what hooks cannot see: findings, and a verdict where they leave it open."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slowstep.analyses.ledger.captured_ledger import UNSEEN_BY_HOOKS
from slowstep.diagnosis.law import MODEL, Diagnosis
from slowstep.findings import Evidence, Finding
from slowstep.reasons import Wording

# Where hooks cannot look. What they tell of the other stages is of many more steps, and stays.
_OF_CAPTURE: Final = (MODEL, *UNSEEN_BY_HOOKS)
FROM_CAPTURE = Wording("from-capture", "{answer} (from the capture of steps {steps})")


def with_captured(own: Diagnosis, captured: Diagnosis, *, steps: str, may_lead: bool) -> Diagnosis:
    """The diagnosis by hooks, with that of the captured `steps`, whose verdict counts where hooks leave it open if it `may_lead`."""
    verdict = captured.verdict
    leads = may_lead and own.verdict.state == "undetermined" and verdict.state != "undetermined"
    findings = (*own.findings, *_new(own, captured, steps, verdict.rule if leads else None))
    if not leads:
        return replace(own, findings=findings)
    answer = verdict.reason or next((each.title for each in captured.findings if each.rule == verdict.rule), None)
    return replace(
        captured,
        findings=tuple(sorted(findings, key=lambda finding: finding.rule != verdict.rule)),
        not_judged=own.not_judged,
        verdict=replace(verdict, reason=FROM_CAPTURE(answer=answer, steps=steps)),
    )


def _new(own: Diagnosis, captured: Diagnosis, steps: str, leading: str | None) -> list[Finding]:
    """The findings on what hooks cannot see, and that of the rule that leads, which no finding of theirs has said."""
    said = {rule for finding in own.findings for rule in (finding.rule, *finding.also)}
    where = Evidence(name="from the capture of steps", value=steps, unit="")
    new = [each for each in captured.findings if (each.stage in _OF_CAPTURE or each.rule == leading) and each.rule not in said]
    return [replace(each, evidence=(*each.evidence, where)) for each in new]
