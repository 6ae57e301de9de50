"""The verdict on a trace: the law of findings is the same as of a recorded run, what may be doubted is not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from made_answers import judged, set_answers
from made_measured_traces import made_measured
from made_parts import span_part
from slowstep.analyses.device.clocks import BEHIND
from slowstep.analyses.events.parts import COLLECTIVES, COPIES, INPUT_WAIT, NO_LAUNCH
from slowstep.analyses.steps.whole_steps import COPY_AGAIN, LAUNCHES_LOST, LEFT_OUT, ONE_STEP_IS, PARTLY_RECORDED
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.trace_doubts import ABOUT_WHAT_RAN, CLOCKS_DIFFER, FEW_LEFT, FEW_TRACED, NO_BACKWARD, is_inference
from slowstep.diagnosis.trace_view import BY_RECORDING, CHOSEN_STEP, FIXES_SAVE_TOO_LITTLE, LATE_ONE_NOT_SEEN
from slowstep.findings import Gain
from slowstep.frameworks._known import words_of_profiler
from slowstep.frameworks._remedies import Remedy
from slowstep.reason_words import sentence
from slowstep.reasons import OWN_WORDS


@pytest.fixture
def answering(monkeypatch):
    """Sets what the rules answer."""
    return partial(set_answers, monkeypatch)


def waiting(rule: str, predicted: float | None, **more: Any) -> Judged:
    """A finding about waiting for input, where nothing else is said."""
    return judged(rule, predicted, **({"stage": "preprocess", "part": INPUT_WAIT} | more))


def test_a_finding_that_surely_gains_is_the_bottleneck_and_what_binds_next_is_said(answering):
    answering(waiting("small", 1.05, part=span_part("output", "a")), waiting("large", 1.4, part=span_part("output", "b")))

    diagnosis = diagnose(made_measured(ledger={INPUT_WAIT: 30.0}))

    assert (diagnosis.verdict.state, diagnosis.verdict.rule) == ("bottleneck", "large")
    assert [f.rule for f in diagnosis.findings] == ["large", "small"]
    assert diagnosis.next is not None
    assert diagnosis.next.stage == "compute"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"is_training": False}, "no-backward"),
        ({"steps": 1}, "few-traced"),
        ({"ledger": {NO_LAUNCH: 20.0}}, "unattributed-time"),
        ({"ledger": {NO_LAUNCH: 20.0}, "completeness": {"kernels_with_launch": 0.5}}, "few-launches"),
    ],
    ids=["inference", "one step", "unattributed", "without launches"],
)
def test_what_cannot_be_known_is_undetermined(answering, more, code):
    answering(None)

    verdict = diagnose(made_measured(**more)).verdict

    assert (verdict.state, verdict.healthy, verdict.reason.code) == ("undetermined", None, code)


def test_clocks_that_differ_leave_the_verdict_open_whatever_was_found(answering):
    answering(waiting("large", 1.4, part=span_part("output", "a")))

    verdict = diagnose(made_measured(completeness={"clocks_differ": BEHIND(share=0.5, by=3e6)})).verdict

    assert (verdict.state, verdict.healthy) == ("undetermined", None)
    assert verdict.reason == CLOCKS_DIFFER(how=BEHIND(share=0.5, by=3e6))


def uneven(predicted: float | None, share: float) -> Judged:
    judged = waiting("now-and-then", predicted, share=share)
    return replace(judged, finding=replace(judged.finding, share_low=0.0))


@pytest.mark.parametrize("predicted", [1.05, None])
def test_what_takes_much_time_in_some_steps_only_is_not_judged_and_says_so(answering, predicted):
    answering(uneven(predicted, 0.9))

    diagnosis = diagnose(made_measured())

    assert diagnosis.findings == ()
    # Of what gains little at most nothing is left open; of what nobody knows, all.
    assert (diagnosis.verdict.state == "undetermined") == (predicted is None)
    assert [skipped.rule for skipped in diagnosis.not_judged] == ["now-and-then"]
    (reason,) = (row.reason for row in diagnosis.not_judged)
    assert (reason.code, reason.values["low"], reason.values["high"]) == ("steps-differ", 0.0, pytest.approx(0.99))


@pytest.mark.parametrize(("predicted", "share"), [(1.0, 0.9), (1.05, 0.09)])
def test_what_gains_nothing_or_takes_little_in_some_steps_goes_without_a_word(answering, predicted, share):
    answering(uneven(predicted, share))

    assert diagnose(made_measured()).not_judged == ()


@pytest.mark.parametrize(("recording", "high", "said"), [((0.3, 0.6), 1.3, True), ((0.3, 0.6), 1.05, False), (None, 1.3, False)])
def test_what_only_its_profiler_makes_slow_is_said_and_not_claimed(answering, recording, high, said):
    slow = waiting("launch-bound", 1.0)
    answering(replace(slow, finding=replace(slow.finding, gain=Gain(predicted=1.0, low=0.97, high=high, assumes="it goes"))))

    diagnosis = diagnose(made_measured(recording=recording))

    assert diagnosis.findings == ()
    assert diagnosis.verdict.state == "healthy"
    assert [row.rule for row in diagnosis.not_judged] == ["launch-bound"] * said
    remedy = words_of_profiler(None).advise(Remedy.RECORD_LESS)
    assert all(
        row.reason == BY_RECORDING(title=OWN_WORDS(words=slow.finding.title), low=0.3, high=0.6, remedy=remedy)
        for row in diagnosis.not_judged
    )


@pytest.mark.parametrize(
    ("part", "wording"), [(COLLECTIVES, LATE_ONE_NOT_SEEN), (COPIES["h2d"], FIXES_SAVE_TOO_LITTLE)], ids=["collectives", "copies"]
)
def test_much_time_beside_the_model_is_not_healthy_though_no_finding_gains_enough(answering, part, wording):
    answering(waiting("small", 1.05, stage=part.stage, part=part))

    verdict = diagnose(made_measured(ledger={part: 30.0})).verdict

    assert verdict.state == "undetermined"
    assert (verdict.reason.wording, verdict.reason.values["stage"]) == (wording, part.stage)
    assert verdict.reason.values["share"] == pytest.approx(0.3)


def test_much_time_beside_the_model_is_not_healthy_without_any_finding(answering):
    answering(None)

    said = diagnose(made_measured(ledger={span_part("store", "checkpoint"): 30.0})).verdict.reason

    assert said.code == "no-fix-for-stage"


def test_findings_of_an_inference_are_still_listed_and_where_there_are_none_none_are_spoken_of(answering):
    answering(waiting("large", 1.4))
    diagnosis = diagnose(made_measured(is_training=False))
    assert [f.rule for f in diagnosis.findings] == ["large"]
    assert diagnosis.verdict.reason == ABOUT_WHAT_RAN(reason=NO_BACKWARD())

    answering()
    assert diagnose(made_measured(is_training=False)).verdict.reason == NO_BACKWARD()


@pytest.mark.parametrize(
    ("given", "code"),
    [({"facts": {"complete": False}}, "cut-off-trains"), ({"steps": 0}, "no-step-trains")],
    ids=["cut off", "no step"],
)
def test_what_shows_a_part_of_a_trace_is_not_called_an_inference(answering, given, code):
    answering()
    facts = {"framework": "pytorch"} | given.pop("facts", {})

    m = made_measured(is_training=False, facts=facts, **given)

    assert diagnose(m).verdict.reason.code == code
    assert not is_inference(m)


def test_a_file_that_is_cut_off_before_its_marks_is_to_be_copied_again(answering):
    answering()

    reason = diagnose(made_measured(steps=1, mark="window", facts={"complete": False})).verdict.reason

    assert reason.code == "cut-off-no-step"


def chosen(**more):
    """One step that the user chose, of four."""
    return made_measured(steps=1, whole_steps=4, **more)


def test_a_step_that_was_chosen_may_have_a_bottleneck_of_its_own_and_is_never_healthy(answering):
    answering(waiting("large", 1.4))
    verdict = diagnose(chosen()).verdict
    assert (verdict.state, verdict.rule, verdict.reason) == ("bottleneck", "large", None)
    assert verdict.scope == CHOSEN_STEP(number=5, of=4)

    answering()
    verdict = diagnose(chosen()).verdict
    assert (verdict.state, verdict.healthy, verdict.reason.code) == ("undetermined", None, "nothing-in-chosen-step")
    assert verdict.scope == CHOSEN_STEP(number=5, of=4)


def test_the_one_step_of_a_trace_is_not_enough_whether_it_was_chosen_or_not(answering):
    answering(waiting("large", 1.4))

    assert diagnose(made_measured(steps=1, whole_steps=1)).verdict.reason.of(FEW_TRACED)


def test_a_gain_beyond_its_own_part_leaves_no_stage_more_than_the_step_that_is_left(answering):
    answering(waiting("wait", 2.0, share=0.1))

    diagnosis = diagnose(made_measured(ledger={INPUT_WAIT: 10.0}))

    assert diagnosis.next is not None
    found = diagnosis.next.predicted
    assert (found.code, found.values["stage"]) == ("stage-left", "compute")
    assert found.values["demand"].values["left_ns"] == pytest.approx(50e6)
    assert sentence(found) == "compute, 50.0 ms per step"


@pytest.mark.parametrize(("unknown_ms", "said"), [(9.0, False), (0.0, True)])
def test_what_binds_next_is_left_out_where_more_of_the_time_has_no_known_cause(answering, unknown_ms, said):
    answering(waiting("wait", 8.0, share=0.9))

    m = made_measured(ledger={INPUT_WAIT: 90.0, NO_LAUNCH: unknown_ms})

    assert (diagnose(m).next is not None) is said


def test_where_no_stage_has_any_time_none_is_the_largest(answering):
    answering()

    assert diagnose(made_measured(rest=NO_LAUNCH)).verdict.stage is None


@pytest.mark.parametrize(
    ("notes", "wording"),
    [
        ((), FEW_TRACED),
        ((LEFT_OUT(steps=ONE_STEP_IS(number=4), why=LAUNCHES_LOST(remedy=COPY_AGAIN)),), FEW_LEFT),
        ((PARTLY_RECORDED(number=4, end="last"),), FEW_TRACED),
    ],
)
def test_too_few_steps_are_to_be_traced_again_or_what_was_left_out_is_to_be_looked_at(answering, notes, wording):
    answering()

    verdict = diagnose(made_measured(steps=1, notes=notes)).verdict

    assert verdict.reason.of(wording)
    assert verdict.reason.values["steps"] == 1
