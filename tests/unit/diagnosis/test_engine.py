"""What is concluded of the same findings is the same, whatever was measured: a run as it was recorded, or a profiler's trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from made_answers import judged, set_answers
from made_measured_traces import made_measured
from made_measurements import measurements
from made_topics import with_topics
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.phases import Elsewhere, TrainingInTurn
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.law import RULE_NOT_JUDGED, Diagnosis, opened_by
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.faults import Fault
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.parts import NOT_ATTRIBUTED, Part, PartKind
from slowstep.reasons import Wording

DARK = Wording("dark", "it was dark")()
PLOT = Part("output", PartKind.SPAN, "plot")
KINDS = ("recording", "trace")
# Of steps on a processor, of which `made_measurements` says what they are made of, and of those in a trace.
STEP_MS = {"recording": 19.5, "trace": 100.0}
LISTED = TrainingInTurn(steps=100, length_ns=10**9, samples=None, is_judged=False)


def trained(kind: str, shares: Mapping[Part, float] | None = None) -> Measurements:
    """A healthy training, but for these parts with their shares of the time."""
    given = shares or {}
    if kind == "trace":
        return made_measured(ledger={part: share * STEP_MS[kind] for part, share in given.items()})
    left = 1 - sum(given.values())
    return measurements(ledger={part: share / left * STEP_MS[kind] for part, share in given.items()})


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def concluded(monkeypatch, kind):
    """What is concluded of what rules answer."""

    def conclude(*answers: Answer, shares: Mapping[Part, float] | None = None, stages: tuple[str, ...] = ("compute",)) -> Diagnosis:
        set_answers(monkeypatch, *answers, stages=stages)
        return diagnose(trained(kind, shares))

    return conclude


def test_without_findings_the_training_is_healthy_and_its_largest_stage_is_named(concluded):
    verdict = concluded(None).verdict

    assert (verdict.state, verdict.stage, verdict.healthy, verdict.rule) == ("healthy", "compute", True, None)


@pytest.mark.parametrize(
    ("predicted", "low", "state"),
    [
        (1.10, 1.04, "bottleneck"),
        (1.5, 1.031, "bottleneck"),
        (1.5, 1.03, "undetermined"),
        (1.10, 0.95, "undetermined"),
        (1.09, 1.05, "healthy"),
    ],
)
def test_a_bottleneck_gains_a_tenth_and_at_least_something(concluded, predicted, low, state):
    verdict = concluded(judged("a", predicted, low)).verdict

    assert verdict.state == state
    assert verdict.healthy is {"bottleneck": False, "undetermined": None, "healthy": True}[state]
    assert verdict.rule == ("a" if state == "bottleneck" else None)


@pytest.mark.parametrize(("unattributed", "state"), [(0.5, "undetermined"), (0.25, "bottleneck"), (0.05, "bottleneck")])
def test_what_nothing_explains_is_no_smaller_than_a_bottleneck(concluded, unattributed, state):
    diagnosis = concluded(judged("a", 1.4, 1.3), shares={PLOT: 0.3, NOT_ATTRIBUTED: unattributed})

    assert diagnosis.verdict.state == state
    assert diagnosis.findings[0].rule == "a"
    assert state == "bottleneck" or diagnosis.verdict.reason.code == "unknown-is-larger"


@pytest.mark.parametrize(("unattributed", "state"), [(0.09, "healthy"), (0.10, "undetermined")])
def test_a_tenth_of_the_time_that_nothing_explains_is_not_healthy(concluded, unattributed, state):
    assert concluded(None, shares={NOT_ATTRIBUTED: unattributed}).verdict.state == state


def test_several_small_findings_that_gain_a_tenth_together_are_undetermined(concluded):
    verdict = concluded(judged("a", 1.07, 1.04), judged("b", 1.06, 1.04)).verdict

    assert verdict.state == "undetermined"
    assert verdict.reason.code == "all-together"
    assert verdict.reason.values["gain"] == pytest.approx(1 / (1 / 1.07 + 1 / 1.06 - 1))


def test_findings_that_remove_all_of_a_step_have_no_gain_together(concluded):
    halves = [judged(name, 2.0, 1.0) for name in ("a", "b")]

    assert concluded(*halves).verdict.reason.code == "first-gain-may-be-none"
    small = [judged(f"r{n}", 1.09, 1.0) for n in range(13)]
    assert concluded(*small).verdict.reason.code == "all-remove-step"


def test_a_certain_finding_is_the_bottleneck_though_an_uncertain_one_may_gain_more(concluded):
    diagnosis = concluded(judged("certain", 1.2, 1.15), judged("uncertain", 2.0, 0.9, stage="store"))

    assert [finding.rule for finding in diagnosis.findings] == ["certain", "uncertain"]
    assert (diagnosis.verdict.state, diagnosis.verdict.rule, diagnosis.verdict.stage) == ("bottleneck", "certain", "output")


def test_findings_are_ordered_by_gain(concluded):
    answers = [judged(name, gain, 1.0) for name, gain in (("a", 1.1), ("b", 1.9), ("c", 1.4))]

    assert [finding.rule for finding in concluded(*answers).findings] == ["b", "c", "a"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_findings_on_the_same_part_the_one_that_names_the_cause_leads_and_the_others_fold_into_it(concluded, order):
    answers = [judged("general", 1.9, part=PLOT), judged("cause", 1.5, part=PLOT, names_cause=True), judged("elsewhere", 1.2)]

    findings = concluded(*(answers[i] for i in order)).findings

    assert [(finding.rule, finding.also) for finding in findings] == [("cause", ("general",)), ("elsewhere", ())]


def test_what_may_claim_less_than_3_percent_is_no_finding_and_forbids_a_healthy_verdict_where_it_may_gain_a_tenth(concluded):
    one, other = (concluded(judged("rare", gain, 0.97, share=0.05, share_low=0.02)) for gain in (1.05, 1.3))

    assert one.findings == other.findings == ()
    assert (one.verdict.state, other.verdict.state) == ("healthy", "undetermined")
    assert other.verdict.reason.values["low"] == 0.02


@pytest.mark.parametrize(("share", "state"), [(0.09, "healthy"), (0.10, "undetermined")])
def test_what_may_claim_less_than_3_percent_and_gain_nobody_knows_what_forbids_a_healthy_verdict_from_a_tenth_on(concluded, share, state):
    diagnosis = concluded(judged("rare", None, share=share, share_low=0.02))

    assert (diagnosis.verdict.state, diagnosis.findings) == (state, ())


def test_a_verdict_that_a_failed_rule_leaves_open_is_open_by_a_fault(concluded):
    diagnosis = concluded(NotJudged(rule="r0", reason=DARK, by_fault=True))

    assert (diagnosis.verdict.state, diagnosis.by_fault) == ("undetermined", True)


@pytest.mark.parametrize(("stages", "state"), [(("compute",), "undetermined"), (("store", "output"), "healthy")])
def test_an_unjudged_rule_forbids_a_healthy_verdict_where_its_stage_holds_a_tenth(concluded, stages, state):
    verdict = concluded(NotJudged(rule="r0", reason=DARK), stages=stages).verdict

    assert verdict.state == state
    assert (verdict.reason == RULE_NOT_JUDGED(rule="r0", reason=DARK)) == (state == "undetermined")


def test_an_unjudged_rule_does_not_hide_a_bottleneck(concluded):
    diagnosis = concluded(NotJudged(rule="r0", reason=DARK), judged("a", 1.5))

    assert diagnosis.verdict.state == "bottleneck"
    assert [row.rule for row in diagnosis.not_judged] == ["r0"]


def test_a_fix_that_would_lose_is_no_finding(concluded):
    diagnosis = concluded(judged("loses", 0.91, 0.68))

    assert diagnosis.findings == ()
    assert diagnosis.verdict.state == "healthy"


def told() -> Judged:
    """Advice."""
    advice = Finding(
        rule="memory-growth",
        stage="compute",
        title="memory grows",
        share=0.0,
        share_low=0.0,
        share_high=0.0,
        claims=(),
        evidence=(Evidence(name="growth", value=1.0, unit="bytes per step"),),
        gain=Gain(predicted=None, low=None, high=None, assumes="memory stays as it is"),
        fixes=(Fix(text="detach what is kept"),),
        advisory=True,
    )
    return Judged(finding=advice, counterfactual=None)


def test_advice_stands_last_and_does_not_decide_the_verdict(concluded):
    alone, beside = concluded(told()), concluded(told(), judged("callback", 1.5, 1.4))

    assert (alone.verdict.state, [f.rule for f in alone.findings], alone.next) == ("healthy", ["memory-growth"], None)
    assert (beside.verdict.rule, [f.rule for f in beside.findings]) == ("callback", ["callback", "memory-growth"])


@pytest.mark.parametrize(("share", "state"), [(0.09, "healthy"), (0.10, "undetermined")])
def test_a_finding_of_unknown_gain_is_no_bottleneck_and_not_healthy_either(concluded, share, state):
    diagnosis = concluded(judged("callback", None, share=share))

    assert (diagnosis.verdict.state, len(diagnosis.findings), diagnosis.next) == (state, 1, None)


def test_what_binds_next_is_the_largest_stage_that_the_fix_leaves(concluded):
    following = concluded(judged("plots", 1 / 0.7, part=PLOT), shares={PLOT: 0.3}).next

    assert following is not None
    assert (following.stage, following.predicted.code) == ("compute", "stage-left")


def test_nothing_is_said_of_what_binds_next_where_more_than_any_stage_left_has_no_known_cause(concluded):
    assert concluded(judged("plots", 1 / 0.7, part=PLOT), shares={PLOT: 0.3, NOT_ATTRIBUTED: 0.36}).next is None


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.1])
def test_what_is_left_fits_into_the_step_that_is_left(concluded, kind, kept):
    # The fix removes more than a tenth of the step, which is all that the finding claims.
    following = concluded(judged("plots", 1 / kept, part=PLOT), shares={PLOT: 0.1}).next

    assert following is not None
    demand = following.predicted.values["demand"].values
    left, of = demand["left_ns"], demand["of"]
    rest = trained(kind, {PLOT: 0.1}).mean_step_ns * kept
    assert left <= rest * (1 + 1e-9)
    assert of is None or of.values["rest_ns"] == pytest.approx(rest)


def test_what_a_fix_no_longer_waits_for_a_core_binds_next_no_more(concluded, kind):
    # Without what plots there is nobody in that stage to wait: of the step only computing is left.
    shares = {PLOT: 0.3, Part("output", PartKind.CORE_WAIT): 0.4}

    following = concluded(judged("plots", 1 / 0.3, part=PLOT), shares=shares).next

    assert following is not None
    assert following.stage == "compute"
    assert following.predicted.values["demand"].values["left_ns"] == pytest.approx(0.3 * trained(kind, shares).mean_step_ns, rel=0.05)


def test_what_of_a_stage_is_not_claimed_waits_for_a_core_as_before(concluded, kind):
    saving = Part("output", PartKind.SPAN, "saving")
    shares = {PLOT: 0.1, saving: 0.22, Part("output", PartKind.CORE_WAIT): 0.32}

    following = concluded(judged("plots", 1 / 0.8, part=PLOT), shares=shares).next

    assert following is not None
    assert following.stage == "output"
    assert following.predicted.values["demand"].values["left_ns"] == pytest.approx(0.44 * trained(kind, shares).mean_step_ns)


SETS: dict[str, tuple[Answer, ...]] = {
    "nothing": (None,),
    "a bottleneck": (judged("a", 1.4),),
    "a bottleneck among others": (judged("a", 1.05), judged("b", 1.3), judged("c", None)),
    "one that may be none": (judged("a", 1.4, 1.0),),
    "small ones": (judged("a", 1.04),),
    "small ones that are large together": (judged("a", 1.07), judged("b", 1.07)),
    "an unknown gain": (judged("a", None),),
    "an uncertain share": (judged("a", 1.3, share_low=0.02),),
    "one that loses": (judged("a", 0.9, 0.7),),
    "a rule that could not judge": (NotJudged(rule="r0", reason=DARK),),
    "advice": (told(),),
}


@pytest.mark.parametrize("answers", SETS.values(), ids=SETS)
@pytest.mark.parametrize("shares", [{}, {PLOT: 0.08}, {PLOT: 0.3, NOT_ATTRIBUTED: 0.5}], ids=["busy", "plots", "unexplained"])
def test_one_and_the_same_set_of_findings_gets_the_same_verdict_whatever_was_measured(monkeypatch, answers, shares):
    set_answers(monkeypatch, *answers)

    of_run, of_trace = (diagnose(trained(kind, shares)) for kind in KINDS)

    def said(diagnosis: Diagnosis) -> tuple[object, ...]:
        verdict = diagnosis.verdict
        return verdict.state, verdict.stage, verdict.healthy, verdict.rule, [finding.rule for finding in diagnosis.findings]

    assert said(of_run) == said(of_trace)


@pytest.mark.parametrize(("listed", "code"), [((), "other-trainings"), ((LISTED, LISTED), "no-problem")], ids=["not listed", "listed"])
def test_other_trainings_leave_a_verdict_open_where_they_are_not_listed(listed: tuple[TrainingInTurn, ...], code: str) -> None:
    m = measurements()
    elsewhere = Elsewhere(updates=100, anchors=(2,), share=0.4, unlike_share=0.4, before=1, trainings=listed)
    m = with_topics(m, trainer=replace(m.trainer, elsewhere=elsewhere))

    reason = diagnose(m).verdict.reason

    assert reason is not None
    assert reason.code == code


def test_a_fault_beside_the_judging_opens_a_healthy_verdict_and_no_other() -> None:
    fault = Fault("comparing ranks", ValueError("no"))
    healthy = diagnose(trained("recording"))

    opened = opened_by(healthy, fault)

    assert healthy.verdict.state == "healthy"
    assert opened.verdict.state == "undetermined"
    assert opened.verdict.reason is not None
    assert opened.verdict.reason.holds(fault.reason)
    assert opened_by(opened, Fault("another", ValueError("no"))) is opened
