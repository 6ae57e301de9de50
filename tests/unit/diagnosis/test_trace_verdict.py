"""The verdict on a trace: the law of findings is the same as of a recorded run, what may be doubted is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_measured_traces import made_measured
from made_parts import span_part
from slowstep.analyses.events.parts import COLLECTIVES, COPIES, INPUT_WAIT, KERNELS, NO_LAUNCH
from slowstep.analyses.steps.whole_steps import COPY_AGAIN, LAUNCHES_LOST, LEFT_OUT, ONE_STEP_IS, PARTLY_RECORDED
from slowstep.diagnosis import trace_engine
from slowstep.diagnosis.law import RULE_NOT_JUDGED
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.trace_doubts import ABOUT_WHAT_RAN, CLOCKS_DIFFER, FEW_LEFT, FEW_TRACED, NO_BACKWARD, is_inference
from slowstep.diagnosis.trace_engine import BY_RECORDING, CHOSEN_STEP, FIXES_SAVE_TOO_LITTLE, LATE_ONE_NOT_SEEN, diagnose_trace
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.parts import Part
from slowstep.reasons import Wording


def finding(rule: str, predicted: float | None, *, part: Part = INPUT_WAIT, stage: str = "preprocess", share: float = 0.3) -> Judged:
    low = None if predicted is None else max(1.0, predicted * 0.95)
    high = None if predicted is None else predicted * 1.05
    return Judged(
        finding=Finding(
            rule=rule,
            stage=stage,
            title=f"{rule} is there",
            share=share,
            share_low=share * 0.9,
            share_high=share * 1.1,
            claims=(part,),
            evidence=(Evidence(name="seen", value=1, unit=""),),
            gain=Gain(predicted=predicted, low=low, high=high, assumes="it goes"),
            fixes=(Fix(text="mend it"),),
        ),
        counterfactual=None,
    )


@pytest.fixture
def answering(monkeypatch):
    """Sets what the rules answer."""

    def set_answers(*answers: Answer) -> None:
        named = {f"rule-{i}": Rule(name=f"rule-{i}", stages=("compute",), judge_trace=lambda m, a=a: a) for i, a in enumerate(answers)}
        monkeypatch.setattr(trace_engine, "rules", lambda: named)

    return set_answers


def test_a_finding_that_surely_gains_is_the_bottleneck_and_what_binds_next_is_said(answering):
    answering(finding("small", 1.05, part=span_part("output", "a")), finding("large", 1.4, part=span_part("output", "b")))

    diagnosis = diagnose_trace(made_measured(ledger={INPUT_WAIT: 30.0}))

    assert (diagnosis.verdict.state, diagnosis.verdict.rule) == ("bottleneck", "large")
    assert [f.rule for f in diagnosis.findings] == ["large", "small"]
    assert diagnosis.next is not None
    assert diagnosis.next.stage == "compute"


def test_nothing_found_is_healthy(answering):
    answering(None, finding("small", 1.04))

    verdict = diagnose_trace(made_measured()).verdict

    assert (verdict.state, verdict.healthy) == ("healthy", True)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"is_training": False}, "no-backward"),
        ({"steps": 1}, "few-traced"),
        ({"ledger": {NO_LAUNCH: 20.0}}, "unattributed-time"),
        ({"ledger": {NO_LAUNCH: 20.0}, "coverage": {"kernels_with_launch": 0.5}}, "few-launches"),
    ],
    ids=["inference", "one step", "unattributed", "without launches"],
)
def test_what_cannot_be_known_is_undetermined(answering, more, code):
    answering(None)

    verdict = diagnose_trace(made_measured(**more)).verdict

    assert (verdict.state, verdict.healthy, verdict.reason.code) == ("undetermined", None, code)


def test_a_large_part_of_unknown_gain_is_not_healthy(answering):
    answering(finding("unknown", None))

    assert diagnose_trace(made_measured()).verdict.reason.code == "gain-not-known"


def test_a_rule_that_could_not_judge_a_large_stage_is_not_healthy(answering):
    no_shapes = Wording("no-shapes", "the trace has no shapes")()
    answering(NotJudged(rule="rule-0", reason=no_shapes))

    reason = diagnose_trace(made_measured(rest=KERNELS)).verdict.reason

    assert reason == RULE_NOT_JUDGED(rule="rule-0", where=None, reason=no_shapes)


def test_clocks_that_differ_leave_the_verdict_open_whatever_was_found(answering):
    answering(finding("large", 1.4, part=span_part("output", "a")))

    verdict = diagnose_trace(made_measured(coverage={"clocks_differ": "the device's clock is behind by 3 ms"})).verdict

    assert (verdict.state, verdict.healthy) == ("undetermined", None)
    assert verdict.reason == CLOCKS_DIFFER(how="the device's clock is behind by 3 ms")


def uneven(predicted: float | None, share: float) -> Judged:
    judged = finding("now-and-then", predicted, share=share)
    return replace(judged, finding=replace(judged.finding, share_low=0.0))


@pytest.mark.parametrize("predicted", [1.05, None])
def test_what_takes_much_time_in_some_steps_only_is_not_judged_and_says_so(answering, predicted):
    answering(uneven(predicted, 0.9))

    diagnosis = diagnose_trace(made_measured())

    assert diagnosis.findings == ()
    # Of what gains little at most nothing is left open; of what nobody knows, all.
    assert (diagnosis.verdict.state == "undetermined") == (predicted is None)
    assert [skipped.rule for skipped in diagnosis.not_judged] == ["now-and-then"]
    (reason,) = (row.reason for row in diagnosis.not_judged)
    assert (reason.code, reason.values["low"], reason.values["high"]) == ("steps-differ", 0.0, pytest.approx(0.99))


@pytest.mark.parametrize(("predicted", "share"), [(1.0, 0.9), (1.05, 0.09)])
def test_what_gains_nothing_or_takes_little_in_some_steps_goes_without_a_word(answering, predicted, share):
    answering(uneven(predicted, share))

    assert diagnose_trace(made_measured()).not_judged == ()


@pytest.mark.parametrize(("recording", "high", "said"), [((0.3, 0.6), 1.3, True), ((0.3, 0.6), 1.05, False), (None, 1.3, False)])
def test_what_only_its_profiler_makes_slow_is_said_and_not_claimed(answering, recording, high, said):
    slow = finding("launch-bound", 1.0)
    answering(replace(slow, finding=replace(slow.finding, gain=Gain(predicted=1.0, low=0.97, high=high, assumes="it goes"))))

    diagnosis = diagnose_trace(made_measured(recording=recording))

    assert diagnosis.findings == ()
    assert diagnosis.verdict.state == "healthy"
    assert [row.rule for row in diagnosis.not_judged] == ["launch-bound"] * said
    assert all(row.reason == BY_RECORDING(title=slow.finding.title, low=0.3, high=0.6) for row in diagnosis.not_judged)


def test_small_gains_that_are_large_together_are_not_healthy(answering):
    answering(finding("one", 1.07, part=span_part("output", "a")), finding("two", 1.07, part=span_part("output", "b")))

    reason = diagnose_trace(made_measured()).verdict.reason
    assert (reason.code, reason.values["gain"]) == ("all-together", pytest.approx(1 / (2 / 1.07 - 1)))


@pytest.mark.parametrize(
    ("part", "wording"), [(COLLECTIVES, LATE_ONE_NOT_SEEN), (COPIES["h2d"], FIXES_SAVE_TOO_LITTLE)], ids=["collectives", "copies"]
)
def test_much_time_beside_the_model_is_not_healthy_though_no_finding_gains_enough(answering, part, wording):
    answering(finding("small", 1.05, stage=part.stage, part=part))

    verdict = diagnose_trace(made_measured(ledger={part: 30.0})).verdict

    assert verdict.state == "undetermined"
    assert (verdict.reason.wording, verdict.reason.values["stage"]) == (wording, part.stage)
    assert verdict.reason.values["share"] == pytest.approx(0.3)


def test_much_time_beside_the_model_is_not_healthy_without_any_finding(answering):
    answering(None)

    assert diagnose_trace(made_measured(ledger={span_part("store", "checkpoint"): 30.0})).verdict.reason.code == "no-fix-for-stage"


def test_findings_of_an_inference_are_still_listed_and_where_there_are_none_none_are_spoken_of(answering):
    answering(finding("large", 1.4))
    diagnosis = diagnose_trace(made_measured(is_training=False))
    assert [f.rule for f in diagnosis.findings] == ["large"]
    assert diagnosis.verdict.reason == ABOUT_WHAT_RAN(reason=NO_BACKWARD())

    answering()
    assert diagnose_trace(made_measured(is_training=False)).verdict.reason == NO_BACKWARD()


@pytest.mark.parametrize(
    ("given", "code"),
    [({"facts": {"complete": False}}, "cut-off-trains"), ({"steps": 0}, "no-step-trains")],
    ids=["cut off", "no step"],
)
def test_what_shows_a_part_of_a_trace_is_not_called_an_inference(answering, given, code):
    answering()
    facts = {"framework": "pytorch"} | given.pop("facts", {})

    m = made_measured(is_training=False, facts=facts, **given)

    assert diagnose_trace(m).verdict.reason.code == code
    assert not is_inference(m)


def test_a_file_that_is_cut_off_before_its_marks_is_to_be_copied_again(answering):
    answering()

    reason = diagnose_trace(made_measured(steps=1, mark="window", facts={"complete": False})).verdict.reason

    assert reason.code == "cut-off-no-step"


def chosen(**more):
    """One step that the user chose, of four."""
    return made_measured(steps=1, whole_steps=4, **more)


def test_a_step_that_was_chosen_may_have_a_bottleneck_of_its_own_and_is_never_healthy(answering):
    answering(finding("large", 1.4))
    verdict = diagnose_trace(chosen()).verdict
    assert (verdict.state, verdict.rule, verdict.reason) == ("bottleneck", "large", None)
    assert verdict.scope == CHOSEN_STEP(number=5, of=4)

    answering()
    verdict = diagnose_trace(chosen()).verdict
    assert (verdict.state, verdict.healthy, verdict.reason.code) == ("undetermined", None, "nothing-in-chosen-step")
    assert verdict.scope == CHOSEN_STEP(number=5, of=4)


def test_the_one_step_of_a_trace_is_not_enough_whether_it_was_chosen_or_not(answering):
    answering(finding("large", 1.4))

    assert diagnose_trace(made_measured(steps=1, whole_steps=1)).verdict.reason == FEW_TRACED(steps=1)


def test_a_gain_beyond_its_own_part_leaves_no_stage_more_than_the_step_that_is_left(answering):
    answering(finding("wait", 2.0, share=0.1))

    diagnosis = diagnose_trace(made_measured(ledger={INPUT_WAIT: 10.0}))

    assert diagnosis.next is not None
    found = diagnosis.next.predicted
    assert (found.code, found.values["stage"]) == ("stage-left", "compute")
    assert (found.values["left_ns"], found.values["rest_ns"]) == (pytest.approx(50e6), pytest.approx(50e6))


@pytest.mark.parametrize(("unknown_ms", "said"), [(9.0, False), (0.0, True)])
def test_what_binds_next_is_left_out_where_more_of_the_time_has_no_known_cause(answering, unknown_ms, said):
    answering(finding("wait", 8.0, share=0.9))

    m = made_measured(ledger={INPUT_WAIT: 90.0, NO_LAUNCH: unknown_ms})

    assert (diagnose_trace(m).next is not None) is said


def test_where_no_stage_has_any_time_none_is_the_largest(answering):
    answering()

    assert diagnose_trace(made_measured(rest=NO_LAUNCH)).verdict.stage is None


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

    verdict = diagnose_trace(made_measured(steps=1, notes=notes)).verdict

    assert verdict.reason == wording(steps=1)
