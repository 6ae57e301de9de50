from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from made_answers import set_answers
from made_measurements import changed, fed, measurements
from made_parts import function_part
from slowstep.analyses.compute.before_update import BeforeUpdate
from slowstep.analyses.compute.between_forwards import BetweenForwards
from slowstep.analyses.compute.in_backward import InBackward
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import TimedFunction
from slowstep.analyses.python.garbage import Collected
from slowstep.analyses.steps.phases import Elsewhere, TrainingInTurn
from slowstep.diagnosis import engine
from slowstep.diagnosis.evidence.input.loop_side import NAME_ENVIRONMENT
from slowstep.diagnosis.gain import Case, Counterfactual, predict
from slowstep.diagnosis.healthy import BLOCKED_INSIDE, MOST_IN_LINE, PLAY_LESS, more_blocked, not_healthy
from slowstep.diagnosis.law import RULE_NOT_JUDGED, Answers, combined_gain
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.diagnosis.rules.after_update import slow_callback
from slowstep.diagnosis.rules.compute import double_precision, garbage_collection
from slowstep.diagnosis.rules.input import preprocess_saturates_cpu, slow_collate, slow_transform
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.parts import BACKWARD, BODY, COLLECTION, OPTIMIZER, CodePlace, Part, PartKind
from slowstep.reasons import Wording

DARK, LOUD = Wording("dark", "it was dark")(), Wording("loud", "it was loud")()
CALLBACK = function_part("output", "save_mask_images", "train.py", 80)


@pytest.fixture
def healthy() -> Measurements:
    return measurements()


def _judged(
    m: Measurements,
    rule: str,
    predicted: float,
    low: float,
    *,
    claims: tuple[Part, ...] = (),
    share_low: float = 0.2,
    names_cause: bool = False,
    stage: str = "output",
    concurrent_ns: float = 0.0,
) -> Judged:
    removed = m.step_ns * (1 - 1 / predicted)
    case = Case(removed_ns=removed, concurrent_ns=concurrent_ns)
    finding = Finding(
        rule=rule,
        stage=stage,
        title=f"{rule} it is",
        share=0.3,
        share_low=share_low,
        share_high=0.4,
        claims=claims or (Part(stage, PartKind.SPAN, rule),),
        evidence=(Evidence(name="fix saves per step", value=1.0, unit="ms"),),
        gain=Gain(predicted=predicted, low=low, high=predicted * 1.1, assumes="it is gone"),
        fixes=(Fix(text="remove it"),),
        names_cause=names_cause,
    )
    return Judged(finding=finding, counterfactual=Counterfactual(assumes="it is gone", expected=case, pessimistic=case, optimistic=case))


def _diagnose(
    monkeypatch: pytest.MonkeyPatch, m: Measurements, *answers: Answer, stages: tuple[str, ...] = ("compute",)
) -> engine.Diagnosis:
    set_answers(monkeypatch, *answers, stages=stages)
    return engine.diagnose(m)


def test_gains_are_limited_by_what_binds_beside_both(monkeypatch, healthy):
    beside = float(healthy.step_ns.mean()) * 0.95
    judged = [_judged(healthy, name, 1.05, 1.02, concurrent_ns=beside) for name in ("a", "b")]

    assert combined_gain(healthy, judged) == pytest.approx(1 / 0.95)


@pytest.mark.parametrize("are_listed", [True, False])
def test_that_a_training_is_one_of_several_leaves_nothing_open_where_they_are_listed(healthy, are_listed):
    turns = tuple(TrainingInTurn(steps=200, length_ns=10**9, samples=None, is_judged=number == 0) for number in range(2))
    others = Elsewhere(updates=200, anchors=(), share=0.5, unlike_share=0.5, before=0, trainings=turns if are_listed else ())

    doubt = not_healthy(changed(healthy, elsewhere=others), Answers())

    assert (doubt is None) is are_listed


def test_with_few_steps_even_a_large_gain_is_undetermined(monkeypatch):
    few = measurements(steps=20, ledger={CALLBACK: 30.0})

    diagnosis = _diagnose(monkeypatch, few, _judged(few, "a", 2.0, 1.9))

    assert (diagnosis.verdict.state, diagnosis.verdict.stage, diagnosis.next) == ("undetermined", "output", None)
    assert [(finding.rule, finding.gain.predicted, finding.gain.low) for finding in diagnosis.findings] == [("a", None, None)]
    reason = diagnosis.verdict.reason
    assert (reason.code, reason.values["count"], reason.values["enough"].values["steps"]) == ("few-steps", few.steps.count, 200)


def _counterfactual(case: Case, pessimistic: Case | None = None, optimistic: Case | None = None, ratio: float = 1.0) -> Counterfactual:
    return Counterfactual(assumes="so", expected=case, pessimistic=pessimistic or case, optimistic=optimistic or case, samples_ratio=ratio)


def test_a_gain_is_the_step_over_the_larger_of_what_is_left_and_what_runs_beside(healthy):
    step = float(healthy.step_ns.mean())

    free = predict(healthy, _counterfactual(Case(removed_ns=healthy.step_ns * 0.5)))
    bound = predict(healthy, _counterfactual(Case(removed_ns=healthy.step_ns * 0.5, concurrent_ns=0.8 * step)))

    assert free.predicted == pytest.approx(2.0)
    assert bound.predicted == pytest.approx(1.25)


def test_the_interval_covers_the_worse_and_the_better_case(healthy):
    cases = [Case(removed_ns=healthy.step_ns * share) for share in (0.3, 0.2, 0.4)]

    gain = predict(healthy, _counterfactual(*cases))

    assert gain.low is not None
    assert gain.high is not None
    assert gain.low <= 1 / 0.8
    assert gain.high >= 1 / 0.6


def test_beside_others_a_wait_for_a_core_is_removed_from_neither_clock_twice(healthy):
    beside_others = changed(healthy, load={"foreign_cores": 2.0}, delay_ns=healthy.step_ns * 0.6)

    gain = predict(beside_others, _counterfactual(Case(removed_ns=healthy.step_ns * 0.6, delay_share=0.6)))

    # Of a step of 10, of which 6 are delay, a part of 6 with its share of it goes: 10 / 4, and 4 / 1.6 without delay.
    assert gain.predicted == pytest.approx(2.5)
    assert gain.high == pytest.approx(2.5 * 1.04, rel=0.02)


def test_a_slow_callback_beside_others_gains_no_more_than_it_takes():
    # Half of the time, in every part, was spent in the queue for a core.
    halves = {CALLBACK: 10.0, Part("output", PartKind.CORE_WAIT): 10.0, BODY: 3.0, BACKWARD: 6.0, Part("compute", PartKind.CORE_WAIT): 9.5}
    m = measurements(ledger={**halves, OPTIMIZER: 0.5}, load={"foreign_cores": 2.0}, stacks={CALLBACK: 500})

    answer = slow_callback.RULE.judge(m)

    assert isinstance(answer, Judged)
    gain = answer.finding.gain
    assert 1.1 < gain.predicted < gain.high < 1.5 * gain.predicted


def test_of_float64_beside_others_no_wait_for_a_core_is_removed_twice():
    halves = {BODY: 3.0, BACKWARD: 6.0, OPTIMIZER: 0.5, Part("compute", PartKind.CORE_WAIT): 9.5}
    m = measurements(ledger=halves, load={"foreign_cores": 2.0}, work={"dtypes": {"float64": 100}, "convolutions": 1.0}, making_ms=0.7)

    answer = double_precision.RULE.judge(m)

    assert isinstance(answer, Judged)
    gain = answer.finding.gain
    # Nearly all of the step is compute, and at best convolutions take 1 / 4.5.
    assert 2.0 < gain.predicted < gain.high < 1.1 * 4.5


COLLECTED = Collected(generation=2, asked=False, count=200, total_ns=200 * 30e6, longest_ns=30e6)
CROWDED: dict[str, Any] = {"cores": 2.0, "delay_ms": 8.0}
AUGMENT = TimedFunction(name="augment", file="data.py", line=40, share=0.8, path=("__getitem__", "augment"))


@pytest.mark.parametrize(
    ("rule", "measured"),
    [
        (
            garbage_collection,
            {"ledger": {COLLECTION: 30.0, Part("output", PartKind.CORE_WAIT): 30.0}, "garbage": {"kinds": (COLLECTED,), "let_go": 7}},
        ),
        (preprocess_saturates_cpu, fed(2, cpu_ms=70.5, queued_ms=19.0, **CROWDED)),
        (slow_transform, fed(2, cpu_ms=70.5, **CROWDED, fetch_function=AUGMENT)),
        (slow_collate, fed(1, cpu_ms=32.5, delay_ms=8.0, loader={"collate": "pad_slowly"}, demand={"collate_ns": 26e6})),
    ],
    ids=lambda value: value.RULE.name if hasattr(value, "RULE") else "",
)
def test_what_a_rule_removes_of_a_wait_for_a_core_is_told_apart(rule, measured):
    m = measurements(**measured)
    answer = rule.RULE.judge(m)

    assert isinstance(answer, Judged)
    assert answer.counterfactual is not None
    case = answer.counterfactual.expected
    assert 0.0 < case.delay_share <= 0.5
    assert case.delay_share * case.removed_ns.sum() <= 1.01 * max(m.machine.delay_ns.sum(), case.removed_ns.sum() / 2)


def test_a_gain_has_no_upper_end_where_at_better_nothing_is_left_of_a_step(healthy):
    expected, optimistic = (Case(removed_ns=healthy.step_ns * share) for share in (0.5, 1.0))

    gain = predict(healthy, _counterfactual(expected, optimistic=optimistic))

    assert gain.predicted == pytest.approx(2.0)
    assert gain.low == pytest.approx(2.0 / 1.04, rel=0.02)
    assert gain.high is None


@pytest.mark.parametrize("share", [1.0, 1.2])
def test_a_gain_is_unknown_where_nothing_would_be_left_of_a_step(healthy, share):
    gain = predict(healthy, _counterfactual(Case(removed_ns=healthy.step_ns * share)))

    assert (gain.predicted, gain.low, gain.high) == (None, None, None)
    assert gain.unknown_because.code == "nothing-left-of-step"


def test_beside_others_a_time_without_delay_that_cannot_be_ends_no_interval(healthy):
    beside_others = changed(healthy, load={"foreign_cores": 2.0}, delay_ns=healthy.step_ns * 0.6)

    gain = predict(beside_others, _counterfactual(Case(removed_ns=healthy.step_ns * 0.6)))

    assert gain.predicted == pytest.approx(2.5)
    assert gain.high is None


def test_findings_that_together_leave_nothing_of_a_step_are_no_sign_of_health(healthy):
    halves = [_judged(healthy, name, 2.0, 1.5) for name in ("one", "two")]

    assert combined_gain(healthy, halves) == math.inf


def test_rare_events_make_the_interval_wide(healthy):
    steady = np.full(healthy.steps.count, healthy.step_ns.mean() * 0.3)
    rare = np.zeros(healthy.steps.count)
    rare[40] = steady.sum()

    widths = [gain.high - gain.low for gain in (predict(healthy, _counterfactual(Case(removed_ns=ns))) for ns in (steady, rare))]

    assert widths[1] > 2 * widths[0]


def test_a_larger_batch_counts_samples_and_not_steps(healthy):
    twice_as_long = Case(removed_ns=-healthy.step_ns)

    assert predict(healthy, _counterfactual(twice_as_long, ratio=4.0)).predicted == pytest.approx(2.0)


def test_what_leaves_the_verdict_open_is_what_the_next_experiment_tells(monkeypatch, healthy):
    def trying(judged: Judged, lever: str | None) -> Judged:
        return replace(judged, finding=replace(judged.finding, fixes=(Fix(text="try it", lever=lever),)))

    doubtful = _judged(healthy, "callback", 1.2, 1.0)
    small = [trying(_judged(healthy, f"small {lever}", 1.06, 1.0), lever) for lever in ("autocast", "anomaly-off")]

    # It could not judge the largest stage, but that is not what the verdict says.
    def other(number: int) -> NotJudged:
        return NotJudged(rule=f"r{number}", reason=DARK, lever="batch-size=128")

    open_ones = [
        _diagnose(monkeypatch, healthy, *answers, other(len(answers)))
        for answers in ([trying(doubtful, "stub=train:callback")], [trying(doubtful, None)], small, [])
    ]

    assert [diagnosis.verdict.state for diagnosis in open_ones] == ["undetermined"] * 4
    assert [diagnosis.deciding_levers for diagnosis in open_ones] == ["stub=train:callback", None, "autocast,anomaly-off", "batch-size=128"]


def test_of_several_rules_that_could_not_judge_the_one_that_an_experiment_helps_is_named(monkeypatch, healthy):
    skipped = [NotJudged(rule="r0", reason=DARK), NotJudged(rule="r1", reason=LOUD, lever="batch-size=32")]

    diagnosis = _diagnose(monkeypatch, healthy, *skipped)

    assert diagnosis.verdict.reason == RULE_NOT_JUDGED(rule="r1", reason=LOUD)
    assert diagnosis.deciding_levers == "batch-size=32"


def test_an_uneven_machine_widens_the_gain_of_another_run_and_leaves_the_verdict(healthy, monkeypatch):
    case = Case(removed_ns=healthy.step_ns * 0.2)
    gone = Counterfactual(assumes="it is gone", expected=case, pessimistic=case, optimistic=case)
    even, uneven = (predict(changed(healthy, pace={"spread": spread}), gone) for spread in (0.0, 0.1))
    judged = _judged(healthy, "slow-something", 1.25, 1.2)

    assert (even.predicted, even.steady_low) == (uneven.predicted, uneven.steady_low)
    assert (uneven.low or 0.0) < 1.0 < 1.03 < (even.low or 0.0)
    assert (uneven.high or 0.0) / (even.high or 1.0) == pytest.approx(np.exp(1.645 * np.sqrt(2) * 0.1 - 0.04))
    assert _diagnose(monkeypatch, healthy, replace(judged, finding=replace(judged.finding, gain=uneven))).verdict.state == "bottleneck"
    assert _diagnose(monkeypatch, healthy, _judged(healthy, "slow-something", 1.25, uneven.low)).verdict.state != "bottleneck"


@pytest.mark.parametrize(("received_ms", "state"), [(1.5, "healthy"), (4.0, "undetermined")])
def test_time_that_is_not_the_models_and_that_no_rule_explains_is_not_called_healthy(received_ms, state):
    diagnosis = engine.diagnose(measurements(workers=2, ledger={Part("preprocess", PartKind.TRANSPORT): received_ms}))

    assert diagnosis.verdict.state == state, diagnosis.verdict.reason
    assert diagnosis.deciding_levers == ("mock-loader" if state == "undetermined" else None)


@pytest.mark.parametrize(("making_ms", "predicted", "state"), [(40, 1.04, "undetermined"), (1.5, 1.04, "healthy")])
def test_input_of_which_a_fix_leaves_most_is_not_called_healthy(monkeypatch, making_ms, predicted, state):
    m = measurements(**fed(0, cpu_ms=making_ms))
    claims = (Part("preprocess", PartKind.SAMPLES), Part("preprocess", PartKind.COLLATE))
    finding = _judged(m, "a", predicted, 1.0, claims=claims, stage="preprocess")

    diagnosis = _diagnose(monkeypatch, m, finding)
    assert diagnosis.verdict.state == state, diagnosis.verdict.reason
    assert diagnosis.deciding_levers == ("mock-loader" if state == "undetermined" else None)


def test_no_faster_input_is_advised_for_what_the_model_itself_writes(monkeypatch):
    m = measurements(workers=0, ledger={Part("preprocess", PartKind.ROLL_OUT, "generate", CodePlace("train.py", 26)): 40.0})

    diagnosis = _diagnose(monkeypatch, m, None)
    reason = diagnosis.verdict.reason
    assert (reason.code, reason.values["stage"], reason.values["remedy"]) == ("no-fix-known", "preprocess", PLAY_LESS)
    assert diagnosis.deciding_levers is None


def test_a_roll_out_is_not_called_the_models_work(monkeypatch):
    m = measurements(ledger={BACKWARD: 0.0, Part("compute", PartKind.ROLL_OUT, place=CodePlace("train.py", 5, 9)): 12.0})

    verdict = _diagnose(monkeypatch, m, None).verdict
    assert verdict.state == "undetermined"
    assert (verdict.reason.code, verdict.reason.values["remedy"]) == ("rolled-out", NAME_ENVIRONMENT)


def test_a_finding_that_is_folded_keeps_what_it_advises():
    collates = fed(1, cpu_ms=32.5, loader={"collate": "pad_slowly"}, demand={"collate_ns": 26e6})

    (first, *_) = engine.diagnose(measurements(**collates)).findings

    assert first.also == ("too-few-workers",) == tuple(other.rule for other in first.folded)
    assert first.folded[0].fixes[0].lever == "workers=2"


@pytest.mark.parametrize(
    ("policy", "used", "state"),
    [("PASSIVE", 1.3, "healthy"), ("passive", 0.85, "undetermined"), ("active", 1.3, "undetermined"), (None, 1.3, "undetermined")],
    ids=["one thread would take as long", "it might not", "some of it is spinning", "some of it may be"],
)
def test_threads_that_wait_for_each_others_cores_are_no_doubt_where_one_would_compute_as_long(monkeypatch, policy, used, state):
    queue = {Part("compute", PartKind.CORE_WAIT): 12.0}
    m = measurements(ledger=queue, workers=None, cores=2.0, machine={"threads": 2, "tree_cores": used})
    notes = m.trainer.facts.notes | {"env": {} if policy is None else {"OMP_WAIT_POLICY": policy}}
    m = changed(m, notes=notes)

    verdict = _diagnose(monkeypatch, m, None).verdict
    assert verdict.state == state
    assert verdict.reason is not None
    assert (verdict.reason.code == "waits-for-core") is (state == "undetermined")


def _blocked_for(share: float, *, busy: bool = False, threads: int = 1, queueing: float | None = None, workers: int = 0) -> Any:
    """Of steps of 10 ns, in which the training thread itself waits 1 ns for a core."""
    return SimpleNamespace(
        compute=SimpleNamespace(device="cpu", blocked=SimpleNamespace(share=share, line="train.py:22")),
        sharing=SimpleNamespace(ranks=1),
        machine=SimpleNamespace(load=SimpleNamespace(busy=busy), resources=SimpleNamespace(threads=threads, queueing=queueing)),
        input=SimpleNamespace(demand=SimpleNamespace(workers=workers)),
        ledger=SimpleNamespace(of=lambda stage, _: np.array([{"compute": 0.6, "output": 0.4}.get(stage, 0.0)])),
        step_ns=np.array([10.0]),
    )


@pytest.mark.parametrize(
    ("busy", "threads", "code", "looks"),
    [(True, 2, "blocked-or-queued", False), (True, 1, "blocked-inside", True), (False, 2, "blocked-inside", True)],
    ids=["its threads may wait for cores", "it has no others", "they find cores"],
)
def test_beside_others_a_thread_that_waits_for_its_operations_may_be_no_sleep(busy, threads, code, looks):
    first: Any = SimpleNamespace(stage="compute", share=0.0)

    doubt = more_blocked(_blocked_for(0.4, busy=busy, threads=threads), first)

    assert doubt is not None
    assert doubt.reason.code == code
    assert (doubt.change is not None) is looks


@pytest.mark.parametrize(
    ("queueing", "workers", "busy", "code"),
    [
        (0.51, 0, True, "blocked-or-queued"),
        (0.49, 0, True, "blocked-inside"),
        (None, 0, True, "blocked-inside"),
        (2.0, 2, True, "blocked-inside"),
        (0.51, 0, False, "blocked-inside"),
    ],
    ids=["as long as it waits", "shorter", "not measured", "a loader's workers may", "on a quiet machine"],
)
def test_other_threads_than_one_operation_has_may_stand_in_a_queue_for_a_core(queueing, workers, busy, code):
    first: Any = SimpleNamespace(stage="compute", share=0.0)

    doubt = more_blocked(_blocked_for(0.4, busy=busy, queueing=queueing, workers=workers), first)

    assert doubt is not None
    assert doubt.reason.code == code


@pytest.mark.parametrize(("stage", "share", "blocked", "doubted"), [
    ("compute", 0.2, 0.4, True), ("compute", 0.5, 0.4, False), ("output", 0.2, 0.4, False), ("compute", 0.02, 0.05, False),
])  # fmt: skip
def test_a_finding_about_computing_gives_way_where_nobody_computes_for_more_of_the_time(stage, share, blocked, doubted):
    m = _blocked_for(blocked)
    first: Any = SimpleNamespace(stage=stage, share=share)

    doubt = more_blocked(m, first)

    assert (doubt is not None) == doubted
    if doubt is not None:
        assert doubt.reason == BLOCKED_INSIDE(share=blocked, most=MOST_IN_LINE(line="train.py:22"))


@pytest.mark.parametrize(("share", "is_open"), [(0.3, True), (0.05, False)])
@pytest.mark.parametrize("code", ["before-update", "own-update", "hook-in-backward", "between-forwards"])
def test_what_of_the_users_may_run_inside_the_steps_leaves_the_verdict_open(code, share, is_open):
    name = "collect_metrics (train.py:60)"
    inside = {
        "before-update": {"before_update": BeforeUpdate(name=name, share=share, stacks=60)},
        "own-update": {"own_update": OwnUpdate(name=name, place="train.py:62", share=share, stacks=60, elements=576.0)},
        "hook-in-backward": {"in_backward": InBackward(name=name, share=share)},
        "between-forwards": {"between_forwards": BetweenForwards(unknown_share=share, gradients_share=0.0)},
    }

    verdict = engine.diagnose(measurements(**inside[code])).verdict

    assert verdict.state == ("undetermined" if is_open else "healthy")
    assert (verdict.reason is not None and verdict.reason.code == code) is is_open
    if is_open:
        assert verdict.reason.values["share"] == share
        assert verdict.reason.values.get("name", name) == name


@pytest.mark.parametrize(
    ("elements", "by_tensor_share", "state"),
    [
        (250_000.0, 1.0, "healthy"),
        (None, 1.0, "healthy"),
        (576.0, 0.3, "healthy"),
        (576.0, 0.9, "undetermined"),
        (576.0, None, "undetermined"),
    ],
    ids=["of large tensors", "of tensors that were not counted", "all at once", "tensor by tensor", "perhaps"],
)
def test_an_optimizer_of_the_scripts_own_is_its_work_where_all_tensors_at_once_may_take_as_long(elements, by_tensor_share, state):
    own = OwnUpdate(name="Muon.step", place="train.py:62", share=0.4, stacks=60, elements=elements, by_tensor_share=by_tensor_share)

    assert engine.diagnose(measurements(own_update=own)).verdict.state == state


@pytest.mark.parametrize(("gradients", "is_said"), [(0.2, True), (0.01, False)])
def test_gradients_that_are_computed_between_forwards_are_said_beside_what_is_not_known(gradients, is_said):
    between = BetweenForwards(unknown_share=0.3, gradients_share=gradients)

    reason = engine.diagnose(measurements(between_forwards=between)).verdict.reason

    assert (reason.values["beside"] is not None) is is_said


@pytest.mark.parametrize(("ms", "is_open"), [(20.0, True), (1.0, False)])
def test_lines_that_may_hold_more_than_an_update_by_hand_are_not_blamed(ms, is_open):
    beside = Part("compute", PartKind.BESIDE_BACKWARD, None, CodePlace("train.py", 34))

    diagnosis = engine.diagnose(measurements(ledger={beside: ms}))

    assert diagnosis.findings == ()
    assert diagnosis.verdict.state == ("undetermined" if is_open else "healthy")
    assert (diagnosis.verdict.reason is not None and diagnosis.verdict.reason.code == "lines-beside-backward") is is_open
