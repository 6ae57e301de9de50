"""The command under a trace's report: something that tells more than this trace, and that works for what it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from made_measured_traces import made_measured
from slowstep.analyses.events.parts import LAUNCH
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.trace_doubts import ABOUT_WHAT_RAN, CUT_OFF_NO_STEP, CUT_OFF_TRAINS
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.findings import Evidence, Finding, Fix, Gain, Verdict
from slowstep.reasons import Reason, Wording
from slowstep.timeline.trace import TraceFacts
from slowstep.workflow.next_command.after_trace import after_trace

FINDING = Finding(
    rule="launch-bound",
    stage="compute",
    title="the device waits",
    share=0.5,
    share_low=0.4,
    share_high=0.6,
    claims=(LAUNCH,),
    evidence=(Evidence(name="idle", value=0.5, unit="share of window", threshold=0.05),),
    gain=Gain(predicted=None, low=None, high=None, assumes="nothing"),
    fixes=(Fix(text="a larger batch"),),
)
OPEN = Wording("open", "it is not known")()


def diagnosis(state: Literal["undetermined", "healthy"] = "undetermined", *findings: Finding, reason: Reason = OPEN) -> Diagnosis:
    verdict = Verdict(state=state, stage="compute", healthy=None, rule=None, reason=reason)
    return Diagnosis(findings=findings, not_judged=(), verdict=verdict, next=None)


def following(found: Diagnosis, path: Path = Path("trace.json"), framework: str | None = "pytorch", **more: Any) -> str | None:
    facts = TraceFacts(format="Kineto trace", files=(), bytes=1, events=1, recorded=frozenset(), framework=framework)
    return after_trace(found, facts, path, **more).command


def test_what_a_trace_of_pytorch_leaves_open_a_recording_with_a_capture_answers() -> None:
    assert following(diagnosis()) == "slowstep run --capture YOUR_SCRIPT.py"
    assert following(diagnosis(), framework=None) == "slowstep run --capture YOUR_SCRIPT.py"
    assert following(diagnosis("healthy")) is None


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_a_training_that_no_recording_can_look_into_is_explained_or_traced_again(framework: str) -> None:
    assert following(diagnosis("undetermined", FINDING), framework=framework) == "slowstep explain launch-bound"
    assert following(diagnosis(), framework=framework) == "slowstep analyze NEW_TRACE"


def test_a_captures_trace_is_followed_by_the_report_of_its_recording(tmp_path: Path) -> None:
    capture = tmp_path / "my run" / "capture-417.json"
    capture.parent.mkdir()

    lone = following(diagnosis(), capture)
    (capture.parent / "launcher.jsonl").write_text("")

    assert lone == "slowstep run YOUR_SCRIPT.py"
    assert following(diagnosis(), capture) == f"slowstep analyze '{capture.parent}'"


def test_one_rank_whose_verdict_needs_the_others_is_followed_by_all_of_them() -> None:
    found = diagnosis(reason=LATE_ONE_NOT_SEEN(share=0.3, stage="gradient_sharing"))

    assert following(found) == "slowstep analyze FOLDER_OF_ALL_RANKS"


@pytest.mark.parametrize("reason", [CUT_OFF_TRAINS(), CUT_OFF_NO_STEP(), ABOUT_WHAT_RAN(reason=CUT_OFF_TRAINS())])
def test_a_file_that_is_cut_off_is_to_be_whole_before_it_is_looked_at_again(reason: Reason, tmp_path: Path) -> None:
    facts = TraceFacts(format="Kineto trace", files=(), bytes=1, events=1, recorded=frozenset(), framework="pytorch")

    found = after_trace(diagnosis(reason=reason), facts, Path("cut.json"))

    assert found.command == "slowstep analyze cut.json"
    assert str(found.first).startswith("copy the file again")
    (tmp_path / "launcher.jsonl").write_text("")
    assert following(diagnosis(reason=reason), tmp_path / "capture-417.json") == f"slowstep analyze {tmp_path}"


def test_an_inference_is_not_recorded_as_a_training() -> None:
    assert following(diagnosis(), is_inference=True) is None
    assert following(diagnosis("undetermined", FINDING), is_inference=True) == "slowstep explain launch-bound"


def test_after_one_chosen_step_that_leaves_the_verdict_open_all_are_to_be_looked_at() -> None:
    m = made_measured(steps=1, whole_steps=4)

    next_step = after_trace(diagnose(m), m.facts, Path("of a rank/trace.json"), is_chosen=m.marks.is_chosen)

    assert next_step.command == "slowstep analyze 'of a rank/trace.json'"
