"""What the captured steps of a training tell of what hooks cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from made_measured_traces import made_measured
from made_measurements import measurements
from made_topics import with_topics
from slowstep.analyses.events.parts import COPIES, KERNELS, LAUNCH
from slowstep.analyses.measurements import CapturedWindow
from slowstep.analyses.steps.captures import Capture
from slowstep.diagnosis.captured import with_captured
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.law import Diagnosis, NextLimit
from slowstep.faults import Fault
from slowstep.findings import Evidence, Finding, Fix, Gain, Verdict
from slowstep.reasons import Wording

NO_DEVICE, NOTHING = Wording("no-device-seen", "hooks see no device"), Wording("nothing-found", "nothing worth 10 % was found")
OPEN = Verdict(state="undetermined", stage="compute", healthy=None, rule=None, reason=NO_DEVICE())
FOUND = Verdict(state="bottleneck", stage="compute", healthy=False, rule="launch-bound", reason=None)
HEALTHY = Verdict(state="healthy", stage="compute", healthy=True, rule=None, reason=NOTHING())


def finding(rule: str, stage: str, **changes: Any) -> Finding:
    usual: dict[str, Any] = {"title": "it takes time", "share": 0.5, "share_low": 0.4, "share_high": 0.6, "claims": (LAUNCH,)}
    usual |= {"evidence": (Evidence(name="idle", value=0.5, unit="share of window"),), "fixes": (Fix(text="do less"),)}
    usual |= {"gain": Gain(predicted=None, low=None, high=None, assumes="nothing")}
    return Finding(rule=rule, stage=stage, **(usual | changes))


def diagnosis(verdict: Verdict, *findings: Finding, **more: Any) -> Diagnosis:
    return Diagnosis(**({"findings": findings, "not_judged": (), "verdict": verdict, "next": None} | more))


def test_findings_on_what_hooks_cannot_see_follow_those_that_are_said_already() -> None:
    own = diagnosis(OPEN, finding("slow-transform", "preprocess", also=("small-batch",)))
    new = [finding("launch-bound", "compute"), finding("small-batch", "compute"), finding("input-wait", "preprocess")]

    found = with_captured(own, diagnosis(OPEN, *new), steps="3-5", may_lead=True)

    assert [each.rule for each in found.findings] == ["slow-transform", "launch-bound"]
    assert (found.findings[1].evidence[-1].name, found.findings[1].evidence[-1].value) == ("from the capture of steps", "3-5")


def test_a_verdict_that_hooks_left_open_is_the_captures_and_its_finding_leads() -> None:
    own = diagnosis(OPEN, finding("slow-transform", "preprocess"), deciding_levers="autocast", change="record alone")
    limit = NextLimit(stage="preprocess", predicted=NOTHING())

    found = with_captured(own, diagnosis(FOUND, finding("launch-bound", "compute"), next=limit), steps="3-5", may_lead=True)

    assert (found.verdict.state, found.verdict.rule) == ("bottleneck", "launch-bound")
    assert found.verdict.reason is not None
    assert found.verdict.reason.values == {"answer": "it takes time", "steps": "3-5"}
    assert [each.rule for each in found.findings] == ["launch-bound", "slow-transform"]
    # Nothing is open any more that a lever or another run would have to tell.
    assert (found.deciding_levers, found.change, found.next) == (None, None, limit)


def test_the_finding_that_the_verdict_names_is_there_whatever_its_stage() -> None:
    found = Verdict(state="bottleneck", stage="preprocess", healthy=False, rule="input-wait", reason=None)

    joined = with_captured(diagnosis(OPEN), diagnosis(found, finding("input-wait", "preprocess")), steps="3-5", may_lead=True)

    assert [each.rule for each in joined.findings] == [joined.verdict.rule] == ["input-wait"]


@pytest.mark.parametrize(
    ("own", "of_capture", "may_lead", "state"),
    [
        (FOUND, HEALTHY, True, "bottleneck"),
        (OPEN, OPEN, True, "undetermined"),
        (OPEN, HEALTHY, True, "healthy"),
        (OPEN, HEALTHY, False, "undetermined"),
    ],
    ids=["is known by hooks", "is known by neither", "is known by the capture", "may not lead"],
)
def test_a_verdict_is_taken_where_it_tells_more(own: Verdict, of_capture: Verdict, may_lead: bool, state: str) -> None:
    assert with_captured(diagnosis(own), diagnosis(of_capture), steps="3-5", may_lead=may_lead).verdict.state == state


@pytest.mark.parametrize(("faults", "state"), [((), "healthy"), ((Fault("find_copies", ValueError("odd")),), "undetermined")])
def test_the_engine_judges_both_windows_and_calls_nothing_healthy_that_a_fault_may_hide(faults: tuple[Fault, ...], state: str) -> None:
    window = made_measured(ledger={KERNELS: 98.0, COPIES["h2d"]: 2.0})
    hooks = measurements(device="cuda:0")
    capture = Capture(file="capture-3.json", reason=None, first=3, last=5, begin_ns=0, end_ns=1)
    m = with_topics(hooks, captured=CapturedWindow(capture=capture, m=window))
    m._faults.extend(faults)

    assert diagnose(hooks).verdict.state == "undetermined"
    assert diagnose(window).verdict.state == "healthy"
    assert diagnose(m).verdict.state == state
