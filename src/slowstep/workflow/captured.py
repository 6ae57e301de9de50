"""What the capture of a few steps adds to the report of a recording: shares that hooks cannot see, and findings inside the compute."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from slowstep.analyses.captures import Capture
from slowstep.analyses.trace.measure import measure_trace
from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.trace_engine import diagnose_trace
from slowstep.errors import SlowstepError
from slowstep.faults import Attempts
from slowstep.reasons import Wording
from slowstep.report.document import EvidenceRow, HealthRow
from slowstep.report.words import title_of, verdict_row
from slowstep.sources._source import PLAIN
from slowstep.units import format_count, format_share
from slowstep.workflow.document import finding_row
from slowstep.workflow.find import known

# Where the recording cannot look: what it says of the other stages is of many more steps, and stays.
UNSEEN_BY_HOOKS = ("compute", "h2d", "d2h", "gradient_sharing")
NULL_WITHOUT = ("h2d", "d2h", "gradient_sharing")
FROM_CAPTURE = Wording("from-capture", "{answer} (from the capture of steps {steps})")


def add_capture(report: dict[str, Any], folder: Path, capture: Capture, attempt: Attempts) -> None:
    """Complete a report by what the capture in the recording's folder shows, or by why there is none.

    The faults of what is done with it go to `attempt`.
    """
    if capture.file is None:
        report["health"].append(_health("no-capture", "notice", capture.reason or "why is not known"))
        return
    path = folder / capture.file
    try:
        found = known(path)
        if found is None:
            raise SlowstepError("it is no trace")
        timeline = found.source.read(path, PLAIN)
    except (SlowstepError, OSError) as error:
        report["health"].append(_health("capture-unreadable", "data_loss", str(error) or type(error).__name__))
        return
    m = measure_trace(timeline)
    diagnosis = diagnose_trace(m)
    attempt.faults += [*m.faults, *diagnosis.faults]
    steps = f"{capture.first}-{capture.last}"
    report["run"]["capture"] = {"file": str(path), "steps": steps, "extra_ms": None if capture.extra_ns is None else capture.extra_ns / 1e6}
    report["run"]["notes"] = [*report["run"].get("notes", []), _note(path, steps, m)]
    _add_findings(report, diagnosis, steps)
    if m.has_device and m.window_ns:
        _fill_ledger(report, m)
        if diagnosis.verdict.state != "healthy" or not attempt.faults:
            _take_verdict(report, diagnosis, steps)
    if capture.lasts:
        slower = (
            f"steps are {format_share((capture.slowdown or 1) - 1)} longer since the capture of steps {steps}: figures after it "
            "are too high"
        )
        report["health"].append(_health("capture-slowed", "notice", slower))


def _note(path: Path, steps: str, m: TraceMeasurements) -> str:
    busy = "" if m.device_busy_share is None else f", the device busy {format_share(m.device_busy_share)} of the time"
    seen = format_count(m.facts.events, "event")
    return f"steps {steps} were captured by torch.profiler ({seen}{busy}): slowstep analyze {shlex.quote(str(path))}"


def _add_findings(report: dict[str, Any], diagnosis: Diagnosis, steps: str) -> None:
    said = {rule for row in report["findings"] for rule in (row["rule"], *row["also"])}
    for finding in diagnosis.findings:
        if finding.stage in UNSEEN_BY_HOOKS and finding.rule not in said:
            row = finding_row(finding)
            where: EvidenceRow = {"name": "from the capture of steps", "value": steps, "unit": "", "threshold": None, "where": None}
            row["evidence"].append(where)
            report["findings"].append(row)


def _fill_ledger(report: dict[str, Any], m: TraceMeasurements) -> None:
    """Give the stages that only a trace shows their shares of the captured steps; the recording has that time in compute."""
    rows = {row["stage"]: row for row in report["ledger"]}
    compute = rows["compute"]
    if compute["share"] is None:
        return
    step_ms = compute["ms_per_step"] / compute["share"] if compute["share"] else None
    left = compute["share"] or 0.0
    for stage in NULL_WITHOUT:
        if rows[stage]["share"] is not None:
            continue
        share = min(m.share(stage), left)
        left -= share
        per_step = None if step_ms is None else share * step_ms
        rows[stage] |= {
            "share": share,
            "ms_per_step": per_step,
            "parts": [{"name": "from capture", "share": share, "ms_per_step": per_step}],
        }
    if compute["share"]:
        kept = left / compute["share"]
        parts = [part | {"share": part["share"] * kept, "ms_per_step": part["ms_per_step"] * kept} for part in compute["parts"]]
        compute |= {"share": left, "ms_per_step": compute["ms_per_step"] * kept, "parts": parts}


def _take_verdict(report: dict[str, Any], diagnosis: Diagnosis, steps: str) -> None:
    """Hooks cannot judge a training on an accelerator; a capture of it can, where they found no bottleneck themselves."""
    verdict = diagnosis.verdict
    if report["verdict"]["state"] != "undetermined" or verdict.state == "undetermined":
        return
    answer = verdict.reason or title_of(verdict, diagnosis.findings)
    report["verdict"] = verdict_row(replace(verdict, reason=FROM_CAPTURE(answer=answer, steps=steps)), diagnosis.findings)
    for row in report["not_judged"]:
        row.pop("in_verdict", None)
    report["findings"].sort(key=lambda row: row["rule"] != verdict.rule)


def _health(name: str, severity: Any, remedy: str) -> HealthRow:
    return {"name": name, "severity": severity, "count": 1, "remedy": remedy}
