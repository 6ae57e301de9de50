"""The verdict on a trace: the law of findings is the same as of a recorded run, what may be doubted is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_measured_traces import made_measured
from made_parts import span_part
from slowstep.analyses.trace.parts import COLLECTIVES, COPIES, INPUT_WAIT, KERNELS, NO_LAUNCH
from slowstep.diagnosis import trace_engine
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.trace_doubts import is_inference
from slowstep.diagnosis.trace_engine import diagnose_trace
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.parts import Part


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
    ("more", "said"),
    [
        ({"training": False}, "no backward"),
        ({"steps": 1}, "1 whole step"),
        ({"ledger": {NO_LAUNCH: 20.0}}, "20 % of the time"),
        ({"ledger": {NO_LAUNCH: 20.0}, "coverage": {"kernels_with_launch": 0.5}}, "50 % of the kernels"),
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

    summary = diagnose_trace(made_measured(rest=KERNELS)).verdict.summary

    assert "the trace has no shapes" in summary


def test_clocks_that_differ_leave_the_verdict_open_whatever_was_found(answering):
    answering(finding("large", 1.4, part=span_part("output", "a")))

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
    assert "0 % to 99 % of the time" in diagnosis.not_judged[0].reason
    assert "trace more steps" in diagnosis.not_judged[0].reason


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
    assert all("30 % to 60 % of the host's time" in row.reason for row in diagnosis.not_judged)


def test_small_gains_that_are_large_together_are_not_healthy(answering):
    answering(finding("one", 1.07, part=span_part("output", "a")), finding("two", 1.07, part=span_part("output", "b")))

    assert "all together predict 1.15x" in diagnose_trace(made_measured()).verdict.summary


@pytest.mark.parametrize(("part", "said"), [(COLLECTIVES, "all ranks"), (COPIES["h2d"], "too little")], ids=["collectives", "copies"])
def test_much_time_beside_the_model_is_not_healthy_though_no_finding_gains_enough(answering, part, said):
    answering(finding("small", 1.05, stage=part.stage, part=part))

    verdict = diagnose_trace(made_measured(ledger={part: 30.0})).verdict

    assert verdict.state == "undetermined"
    assert f"30 % of the time is {part.stage}" in verdict.summary
    assert said in verdict.summary


def test_much_time_beside_the_model_is_not_healthy_without_any_finding(answering):
    answering(None)

    assert "no fix for it is known" in diagnose_trace(made_measured(ledger={span_part("store", "checkpoint"): 30.0})).verdict.summary


def test_findings_of_an_inference_are_still_listed_and_where_there_are_none_none_are_spoken_of(answering):
    answering(finding("large", 1.4))
    diagnosis = diagnose_trace(made_measured(training=False))
    assert [f.rule for f in diagnosis.findings] == ["large"]
    assert diagnosis.verdict.summary.endswith("the findings below are about what ran")

    answering()
    assert "findings" not in diagnose_trace(made_measured(training=False)).verdict.summary


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"facts": {"complete": False}}, "the file is cut off, so it cannot be told whether it trains: copy the file again"),
        ({"steps": 0}, "the trace holds no whole step, so it cannot be told whether it trains"),
    ],
    ids=["cut off", "no step"],
)
def test_what_shows_a_part_of_a_trace_is_not_called_an_inference(answering, given, said):
    answering()
    facts = {"framework": "pytorch"} | given.pop("facts", {})

    m = made_measured(training=False, facts=facts, **given)

    assert said in diagnose_trace(m).verdict.summary
    assert "inference" not in diagnose_trace(m).verdict.summary
    assert not is_inference(m)


def test_a_file_that_is_cut_off_before_its_marks_is_to_be_copied_again(answering):
    answering()

    summary = diagnose_trace(made_measured(steps=1, mark="window", facts={"complete": False})).verdict.summary

    assert "the file is cut off, and no whole step of it is left: copy the file again" in summary


def chosen(**more):
    """One step that the user chose, of four."""
    return made_measured(steps=1, chosen_of=4, **more)


def test_a_step_that_was_chosen_may_have_a_bottleneck_of_its_own_and_is_never_healthy(answering):
    answering(finding("large", 1.4))
    verdict = diagnose_trace(chosen()).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", "large")
    assert verdict.summary == "in the one step that you chose (5, of 4): large is there"

    answering()
    verdict = diagnose_trace(chosen()).verdict
    assert (verdict.state, verdict.healthy) == ("undetermined", None)
    assert verdict.summary.startswith("undetermined in the one step that you chose (5, of 4), because ")
    assert "analyze the trace without --step" in verdict.summary


def test_the_one_step_of_a_trace_is_not_enough_whether_it_was_chosen_or_not(answering):
    answering(finding("large", 1.4))

    assert "the trace holds 1 whole step" in diagnose_trace(made_measured(steps=1, chosen_of=1)).verdict.summary


def test_a_gain_beyond_its_own_part_leaves_no_stage_more_than_the_step_that_is_left(answering):
    answering(finding("wait", 2.0, share=0.1))

    diagnosis = diagnose_trace(made_measured(ledger={INPUT_WAIT: 10.0}))

    assert diagnosis.next is not None
    assert diagnosis.next.predicted == "compute, 50.0 of 50.0 ms per step"


@pytest.mark.parametrize(("unknown_ms", "said"), [(9.0, False), (0.0, True)])
def test_what_binds_next_is_left_out_where_more_of_the_time_has_no_known_cause(answering, unknown_ms, said):
    answering(finding("wait", 8.0, share=0.9))

    m = made_measured(ledger={INPUT_WAIT: 90.0, NO_LAUNCH: unknown_ms})

    assert (diagnose_trace(m).next is not None) is said


def test_where_no_stage_has_any_time_none_is_the_largest(answering):
    answering()

    assert diagnose_trace(made_measured(rest=NO_LAUNCH)).verdict.stage is None


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
