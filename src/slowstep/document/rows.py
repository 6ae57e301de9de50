"""Findings, rules that could not judge, what binds next, and losses, each as a row of the report."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from slowstep.diagnosis.law import BOTTLENECK_LOW, Diagnosis
from slowstep.document.finding_rows import FindingRow, HealthRow, Next, NotJudgedRow
from slowstep.findings import Finding, NotJudged, Verdict
from slowstep.health import Health
from slowstep.part_words import part_in_words
from slowstep.reason_words import sentence
from slowstep.reasons import Reason


def next_row(diagnosis: Diagnosis) -> Next | None:
    """What binds next as a part of the report."""
    following = diagnosis.next
    if following is None:
        return None
    demand = following.predicted.values.get("demand", following.predicted)
    return {
        "stage": following.stage,
        "code": following.predicted.code,
        "predicted": sentence(following.predicted),
        "demand": sentence(cast(Reason, demand)),
    }


def finding_row(finding: Finding) -> FindingRow:
    """A finding as a row of the report."""
    row = asdict(finding)
    for internal in ("share_low", "share_high", "names", "names_cause", "may_be_lesser_than", "advisory", "urgent"):
        del row[internal]
    if not finding.outside:
        del row["outside"]
    low, steady = finding.gain.low, finding.gain.steady_low
    if low is None or steady is None or not low <= BOTTLENECK_LOW < steady:
        # The interval shows by itself whether the finding may be a bottleneck.
        del row["gain"]["steady_low"]
    del row["gain"]["unknown_because"]
    if (because := finding.gain.unknown_because) is not None:
        row["gain"]["unknown_because"] = sentence(because)
    if finding.gain.headroom is None:
        del row["gain"]["headroom"]
    row["claims"] = list(dict.fromkeys(map(part_in_words, finding.claims)))
    for name in ("also", "folded", "evidence", "fixes"):
        row[name] = list(row[name])
    for evidence in row["evidence"]:
        if evidence["code"] is None:
            del evidence["code"]
    for other in row["folded"]:
        other["fixes"] = list(other["fixes"])
        gain = other.pop("gain")
        if gain["predicted"] is not None:
            other["gain"] = {name: gain[name] for name in ("predicted", "low", "high")}
    return cast(FindingRow, row)


def not_judged_row(row: NotJudged, verdict: Verdict) -> NotJudgedRow:
    """A rule that could not judge as a row of the report with this verdict."""
    found: NotJudgedRow = {"rule": row.rule, "code": row.reason.code, "reason": sentence(row.reason), "advisory": row.advisory}
    if verdict.reason is not None and verdict.reason.holds(row.reason):
        found["in_verdict"] = True
    if row.lever is not None:
        found["lever"] = row.lever
    if row.pressing:
        found["pressing"] = True
    return found


def health_row(row: Health) -> HealthRow:
    """A health record as a row of the report."""
    return {"name": row.name, "severity": row.severity, "count": row.count, "remedy": sentence(row.remedy)}
