"""The verdict on a trace: the law of findings is the same as of a recorded run, what may be doubted is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_measured_traces import made_measured
from slowstep.analyses.trace.parts import INPUT_WAIT, KERNELS, NO_LAUNCH
from slowstep.diagnosis import trace_engine
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.trace_engine import diagnose_trace
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged


def finding(rule: str, predicted: float | None, *, part: str = INPUT_WAIT, stage: str = "preprocess", share: float = 0.3) -> Judged:
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
    answering(finding("small", 1.05, part="a"), finding("large", 1.4, part="b"))

    diagnosis = diagnose_trace(made_measured(ledger={("preprocess", INPUT_WAIT): 30.0}))

    assert (diagnosis.verdict.state, diagnosis.verdict.rule) == ("bottleneck", "large")
    assert [f.rule for f in diagnosis.findings] == ["large", "small"]
    assert diagnosis.next is not None
    assert diagnosis.next.stage == "compute"


def test_nothing_found_is_healthy(answering):
    answering(None, finding("small", 1.04))

    verdict = diagnose_trace(made_measured()).verdict

    assert (verdict.state, verdict.healthy) == ("healthy", True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"training": False}, "no backward"),
        ({"steps": 1}, "1 whole step"),
        ({"ledger": {("unattributed", NO_LAUNCH): 20.0}}, "20% of the time"),
        ({"ledger": {("unattributed", NO_LAUNCH): 20.0}, "coverage": {"kernels_with_launch": 0.5}}, "50% of the kernels"),
    ],
    ids=["inference", "one step", "unattributed", "without launches"],
)
def test_what_cannot_be_known_is_undetermined(answering, more, said):
    answering(None)

    verdict = diagnose_trace(made_measured(**more)).verdict

    assert (verdict.state, verdict.healthy) == ("undetermined", None)
    assert said in verdict.summary


def test_a_large_part_of_unknown_gain_is_not_healthy(answering):
    answering(finding("unknown", None))

    assert "would gain is not known" in diagnose_trace(made_measured()).verdict.summary


def test_a_rule_that_could_not_judge_a_large_stage_is_not_healthy(answering):
    answering(NotJudged(rule="rule-0", reason="the trace has no shapes"))

    summary = diagnose_trace(made_measured(rest=("compute", KERNELS))).verdict.summary

    assert "the trace has no shapes" in summary


def test_clocks_that_differ_leave_the_verdict_open_whatever_was_found(answering):
    answering(finding("large", 1.4, part="a"))

    verdict = diagnose_trace(made_measured(coverage={"clocks_differ": "the device's clock is behind by 3 ms"})).verdict

    assert (verdict.state, verdict.healthy) == ("undetermined", None)
    assert "the device's clock is behind by 3 ms; trace again" in verdict.summary


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
    assert "0% to 99% of the time" in diagnosis.not_judged[0].reason
    assert "trace more steps" in diagnosis.not_judged[0].reason


@pytest.mark.parametrize(("predicted", "share"), [(1.0, 0.9), (1.05, 0.09)])
def test_what_gains_nothing_or_takes_little_in_some_steps_goes_without_a_word(answering, predicted, share):
    answering(uneven(predicted, share))

    assert diagnose_trace(made_measured()).not_judged == ()


def test_small_gains_that_are_large_together_are_not_healthy(answering):
    answering(finding("one", 1.07, part="a"), finding("two", 1.07, part="b"))

    assert "all together predict 1.15x" in diagnose_trace(made_measured()).verdict.summary


@pytest.mark.parametrize(
    ("stage", "part", "said"), [("gradient_sharing", "exposed collectives", "all ranks"), ("h2d", "exposed copies", "too little")]
)
def test_much_time_beside_the_model_is_not_healthy_though_no_finding_gains_enough(answering, stage, part, said):
    answering(finding("small", 1.05, stage=stage, part=part))

    verdict = diagnose_trace(made_measured(ledger={(stage, part): 30.0})).verdict

    assert verdict.state == "undetermined"
    assert f"30% of the time is {stage}" in verdict.summary
    assert said in verdict.summary


def test_much_time_beside_the_model_is_not_healthy_without_any_finding(answering):
    answering(None)

    assert "no rule knows" in diagnose_trace(made_measured(ledger={("store", "checkpoint"): 30.0})).verdict.summary


def test_findings_of_an_inference_are_still_listed(answering):
    answering(finding("large", 1.4))

    assert [f.rule for f in diagnose_trace(made_measured(training=False)).findings] == ["large"]


@pytest.mark.parametrize(
    ("notes", "advice"),
    [
        ((), "trace at least 3"),
        (("step 4 is left out: copy the file again",), "see what was left out, and why"),
        (("step 4, the last one, is left out: the profiler recorded only a part of it",), "trace at least 3"),
    ],
)
def test_too_few_steps_are_to_be_traced_again_or_what_was_left_out_is_to_be_looked_at(answering, notes, advice):
    answering()

    verdict = diagnose_trace(replace(made_measured(steps=1), notes=notes)).verdict

    assert advice in verdict.summary
