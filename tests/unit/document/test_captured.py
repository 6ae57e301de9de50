"""What the capture of a few steps adds to the sections of a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_measured_traces import made_measured
from slowstep.analyses.events.parts import COLLECTIVES, COPIES, KERNELS, LAUNCH
from slowstep.analyses.steps.captures import Capture
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.captured import Captured, with_capture, without_capture
from slowstep.document.ledger import part_row
from slowstep.document.report import NO_THROUGHPUT, LedgerRow, unseen_row
from slowstep.document.sections import Sections
from slowstep.findings import Evidence, Finding, Fix, Gain, Verdict
from slowstep.parts import BODY
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED

CAPTURE = Capture(file="capture-3.json", reason=None, first=3, last=5, begin_ns=0, end_ns=1, extra_ns=5e6)
NO_DEVICE, NOTHING = Wording("no-device-seen", "hooks see no device"), Wording("nothing-found", "nothing worth 10 % was found")
OPEN = Verdict(state="undetermined", stage="compute", healthy=None, rule=None, reason=NO_DEVICE())
FOUND = Verdict(state="bottleneck", stage="compute", healthy=False, rule="launch-bound", reason=None)
HEALTHY = Verdict(state="healthy", stage="compute", healthy=True, rule=None, reason=NOTHING())


def finding(rule: str, stage: str, **changes: Any) -> Finding:
    usual: dict[str, Any] = {"title": "it takes time", "share": 0.5, "share_low": 0.4, "share_high": 0.6, "claims": (LAUNCH,)}
    usual |= {"evidence": (Evidence(name="idle", value=0.5, unit="share of window"),), "fixes": (Fix(text="do less"),)}
    usual |= {"gain": Gain(predicted=None, low=None, high=None, assumes="nothing")}
    return Finding(rule=rule, stage=stage, **(usual | changes))


def diagnosis(verdict: Verdict, *findings: Finding) -> Diagnosis:
    return Diagnosis(findings=findings, not_judged=(), verdict=verdict, next=None)


def sections(verdict: Verdict = OPEN, *findings: Finding) -> Sections:
    compute: LedgerRow = {
        "stage": "compute",
        "share": 0.8,
        "ms_per_step": 8.0,
        "parts": [part_row(BODY, share=0.4, ms_per_step=4.0)],
    }
    rows = {stage: unseen_row(stage) for stage in (*STAGES, UNATTRIBUTED)}
    rows |= {"compute": compute, "preprocess": {"stage": "preprocess", "share": 0.2, "ms_per_step": 2.0, "parts": []}}
    run: Any = {"name": "train", "notes": ["its own"]}
    overhead: Any = {"us_per_step": None, "share": None}
    judged = diagnosis(verdict, *findings)
    return Sections(run=run, throughput=NO_THROUGHPUT, ledger=list(rows.values()), diagnosis=judged, health=(), overhead=overhead)


def captured(judged: Diagnosis, capture: Capture = CAPTURE) -> Captured:
    m = made_measured(ledger={KERNELS: 60.0, COPIES["h2d"]: 30.0, COLLECTIVES: 10.0})
    return Captured(capture=capture, path=Path("run/capture-3.json"), m=m, diagnosis=judged)


def test_stages_that_hooks_cannot_see_take_their_shares_out_of_the_compute() -> None:
    before = sections()

    ledger = {row["stage"]: row for row in with_capture(before, captured(diagnosis(OPEN)), may_be_healthy=True).ledger}

    assert ledger["h2d"]["share"] == pytest.approx(0.3)
    assert [part["kind"] for part in ledger["h2d"]["parts"]] == ["from_capture"]
    assert ledger["h2d"]["parts"][0]["ms_per_step"] == pytest.approx(3.0)
    assert ledger["gradient_sharing"]["share"] == pytest.approx(0.1)
    assert ledger["compute"]["share"] == pytest.approx(0.4)
    assert ledger["compute"]["parts"][0]["share"] == pytest.approx(0.2)
    assert sum(row["share"] or 0.0 for row in ledger.values()) == pytest.approx(1.0)
    assert [row["share"] for row in before.ledger if row["stage"] in ("compute", "h2d")] == [None, 0.8]


def test_its_findings_on_what_hooks_cannot_see_follow_those_that_are_said_already() -> None:
    own = finding("slow-transform", "preprocess", also=("small-batch",))
    new = [finding("launch-bound", "compute"), finding("small-batch", "compute"), finding("input-wait", "preprocess")]

    found = with_capture(sections(OPEN, own), captured(diagnosis(OPEN, *new)), may_be_healthy=True).diagnosis.findings

    assert [each.rule for each in found] == ["slow-transform", "launch-bound"]
    assert (found[1].evidence[-1].name, found[1].evidence[-1].value) == ("from the capture of steps", "3-5")


def test_a_verdict_that_hooks_left_open_is_the_captures_and_its_finding_leads() -> None:
    own = finding("slow-transform", "preprocess")

    after = with_capture(
        sections(OPEN, own), captured(diagnosis(FOUND, finding("launch-bound", "compute"))), may_be_healthy=False
    ).diagnosis

    assert after.verdict.reason is not None
    assert after.verdict.reason.values == {"answer": "it takes time", "steps": "3-5"}
    assert [each.rule for each in after.findings] == ["launch-bound", "slow-transform"]


@pytest.mark.parametrize(
    ("own", "of_capture", "may_be_healthy", "state"),
    [
        (FOUND, HEALTHY, True, "bottleneck"),
        (OPEN, OPEN, True, "undetermined"),
        (OPEN, HEALTHY, True, "healthy"),
        (OPEN, HEALTHY, False, "undetermined"),
    ],
    ids=["is known by hooks", "is known by neither", "is known by the capture", "might hide a fault"],
)
def test_a_verdict_is_taken_where_it_tells_more(own: Verdict, of_capture: Verdict, may_be_healthy: bool, state: str) -> None:
    after = with_capture(sections(own), captured(diagnosis(of_capture)), may_be_healthy=may_be_healthy)

    assert after.diagnosis.verdict.state == state


def test_a_training_that_is_slower_since_a_capture_has_figures_that_are_too_high() -> None:
    lasting = replace(CAPTURE, slowdown=1.5, slowdown_low=1.4)

    after = with_capture(sections(), captured(diagnosis(OPEN), lasting), may_be_healthy=True)

    assert [row["name"] for row in after.health] == ["capture-slowed"]
    assert "50 % longer since the capture of steps 3-5" in after.health[0]["remedy"]


def test_a_capture_is_named_beside_the_notes_of_the_run() -> None:
    run: Any = with_capture(sections(), captured(diagnosis(OPEN)), may_be_healthy=True).run

    assert run["notes"][0] == "its own"
    assert "steps 3-5 were captured by torch.profiler" in run["notes"][1]
    assert run["capture"] == {"file": "run/capture-3.json", "steps": "3-5", "extra_ms": 5.0}


def test_of_what_cannot_be_read_the_reason_is_said_and_nothing_else_changes() -> None:
    before = sections()

    after = without_capture(before, "no-capture", "notice", "the script ended first")

    assert after.health == ({"name": "no-capture", "severity": "notice", "count": 1, "remedy": "the script ended first"},)
    assert replace(after, health=()) == before
