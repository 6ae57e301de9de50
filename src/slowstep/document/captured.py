"""What the capture of a few steps adds to the report of a recording: shares that hooks cannot see, and findings inside the compute."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.captures import Capture
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.ledger import part_row
from slowstep.document.report import HealthRow, LedgerRow
from slowstep.document.sections import Sections
from slowstep.document.words import title_of
from slowstep.findings import Evidence
from slowstep.health import Severity
from slowstep.parts import Part, PartKind
from slowstep.reasons import Wording
from slowstep.units import format_count, format_share

# Where the recording cannot look: what it says of the other stages is of many more steps, and stays.
UNSEEN_BY_HOOKS = ("compute", "h2d", "d2h", "gradient_sharing")
FROM_CAPTURE = Wording("from-capture", "{answer} (from the capture of steps {steps})")
NULL_WITHOUT = ("h2d", "d2h", "gradient_sharing")


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """The trace of the captured steps, measured and judged."""

    capture: Capture
    path: Path
    m: Measurements
    diagnosis: Diagnosis

    @property
    def steps(self) -> str:
        """The first and the last of them."""
        return f"{self.capture.first}-{self.capture.last}"


def with_capture(sections: Sections, captured: Captured, *, may_be_healthy: bool) -> Sections:
    """The sections of a recording, completed by what a capture in it shows; its healthy verdict counts where that `may_be_healthy`."""
    capture, m, steps = captured.capture, captured.m, captured.steps
    run = cast(Any, dict(sections.run))
    run["capture"] = {"file": str(captured.path), "steps": steps, "extra_ms": None if capture.extra_ns is None else capture.extra_ns / 1e6}
    run["notes"] = [*run.get("notes", []), _note(captured.path, steps, m)]
    diagnosis = _with_findings(sections.diagnosis, captured.diagnosis, steps)
    ledger = sections.ledger
    if m.device.seen and m.steps.length_ns:
        ledger = _filled(ledger, m)
        if captured.diagnosis.verdict.state != "healthy" or may_be_healthy:
            diagnosis = _with_verdict(diagnosis, captured.diagnosis, steps)
    health = (*sections.health, *([_slowed(capture, steps)] if capture.lasts else []))
    return replace(sections, run=run, ledger=ledger, diagnosis=diagnosis, health=health)


def without_capture(sections: Sections, name: str, severity: Severity, reason: str) -> Sections:
    """The same where nothing can be made of a capture, and why."""
    row: HealthRow = {"name": name, "severity": severity, "count": 1, "remedy": reason}
    return replace(sections, health=(*sections.health, row))


def _slowed(capture: Capture, steps: str) -> HealthRow:
    longer = format_share((capture.slowdown or 1) - 1)
    slower = f"steps are {longer} longer since the capture of steps {steps}: figures after it are too high"
    return {"name": "capture-slowed", "severity": "notice", "count": 1, "remedy": slower}


def _note(path: Path, steps: str, m: Measurements) -> str:
    busy = "" if m.device.busy_share is None else f", the device busy {format_share(m.device.busy_share)} of the time"
    seen = format_count(m.facts.events, "event")
    return f"steps {steps} were captured by torch.profiler ({seen}{busy}): slowstep analyze {shlex.quote(str(path))}"


def _with_findings(own: Diagnosis, captured: Diagnosis, steps: str) -> Diagnosis:
    """With the findings of the capture on what hooks cannot see, that no finding has said."""
    said = {rule for finding in own.findings for rule in (finding.rule, *finding.also)}
    where = Evidence(name="from the capture of steps", value=steps, unit="")
    new = [each for each in captured.findings if each.stage in UNSEEN_BY_HOOKS and each.rule not in said]
    return replace(own, findings=(*own.findings, *(replace(each, evidence=(*each.evidence, where)) for each in new)))


def _filled(ledger: Sequence[LedgerRow], m: Measurements) -> list[LedgerRow]:
    """With shares of the captured steps for the stages that only a trace shows; the recording has that time in compute."""
    rows: dict[str, Any] = {row["stage"]: dict(row) for row in ledger}
    compute = rows["compute"]
    if compute["share"] is None:
        return list(ledger)
    step_ms = compute["ms_per_step"] / compute["share"] if compute["share"] else None
    left = compute["share"] or 0.0
    for stage in NULL_WITHOUT:
        if rows[stage]["share"] is not None:
            continue
        share = min(m.ledger.share(stage), left)
        left -= share
        per_step = None if step_ms is None else share * step_ms
        rows[stage] |= {
            "share": share,
            "ms_per_step": per_step,
            "parts": [part_row(Part(stage, PartKind.FROM_CAPTURE), share=share, ms_per_step=per_step)],
        }
    if compute["share"]:
        kept = left / compute["share"]
        parts = [part | {"share": part["share"] * kept, "ms_per_step": part["ms_per_step"] * kept} for part in compute["parts"]]
        compute |= {"share": left, "ms_per_step": compute["ms_per_step"] * kept, "parts": parts}
    return list(rows.values())


def _with_verdict(own: Diagnosis, captured: Diagnosis, steps: str) -> Diagnosis:
    """Hooks cannot judge a training on an accelerator; a capture of it can, where they found no bottleneck themselves."""
    verdict = captured.verdict
    if own.verdict.state != "undetermined" or verdict.state == "undetermined":
        return own
    findings = sorted(own.findings, key=lambda finding: finding.rule != verdict.rule)
    answer = verdict.reason or title_of(verdict, captured.findings)
    return replace(own, findings=tuple(findings), verdict=replace(verdict, reason=FROM_CAPTURE(answer=answer, steps=steps)))
