"""The rules on how batches are made, on batches that are too small, and on what follows an update.

That their gains are true ones is tested on simulated trainings (tests/unit/workflow/test_true_gains.py).
"""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, code_of, finding, judged, named, unjudged, values
from made_measurements import DATA, MS, every, fed, loop_fed, measurements, merged
from made_parts import function_part
from slowstep.analyses.python.calls import TimedFunction
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rule import Judged
from slowstep.findings import NotJudged
from slowstep.frameworks._known import words_of_loop
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import BACKWARD, BODY, OPTIMIZER, Part, PartKind

Measured = dict[str, Any]
CALLBACK = function_part("output", "save_mask_images", "train.py", 80)
SAVE = Part("store", PartKind.SAVE, "torch.save")


def collates(ms: float, name: str = "pad_slowly", *, by_torch: bool = False) -> Measured:
    return {"demand": {"collate_ns": ms * MS}, "loader": {"collate": name, "collate_is_default": by_torch}}


def transform(share: float) -> Measured:
    """A function of the user's that holds so much of the making of samples."""
    return {"fetch_function": TimedFunction(name="augment", file=DATA, line=40, share=share, path=("__getitem__", "augment"))}


def calls_back(ms: float, stacks: int = 100) -> Measured:
    return {"ledger": {CALLBACK: ms}, "stacks": {CALLBACK: stacks}}


def saves(k: int, ms: float) -> Measured:
    count = 200 // k
    facts = {"count": count, "every_steps": float(k), "writes_each": 1.0, "bytes_each": 8e6, "where": "train.py:33"}
    return {"ledger": {SAVE: every(k, ms)}, "saves": facts}


def small(fixed_ms: float, samples: float = 2.0, *, step_ms: float = 14.0) -> Measured:
    """Steps of so few samples, of which so much is fixed."""
    cost = {"value_ns": fixed_ms * MS, "likely_ns": fixed_ms * MS, "low_ns": 0.95 * fixed_ms * MS, "high_ns": 1.05 * fixed_ms * MS}
    parts = {BODY: step_ms / 2 - 0.5, BACKWARD: step_ms / 2 - 0.5}
    sizes = {"samples": samples, "step_ns": step_ms * MS}
    return {"ledger": parts, "fixed_cost": {**cost, **sizes}, "samples": samples, "making_ms": 0.7}


def optimizer(ms: float, **facts: Any) -> Measured:
    """An optimizer of steps of 8 ms beside it."""
    notes = {"facts": {}, "optimizers": [{"kind": "optimizer", "id": 0, "type": "Adam", "device": "cpu", "fused": False, **facts}]}
    parts = {BODY: 3.0, BACKWARD: 5.0, OPTIMIZER: ms}
    return {"ledger": parts, "trainer": {"facts": {"notes": notes}}}


def in_memory(making_ms: float = 0.4, body_ms: float = 1.1, received_ms: float = 1.2, **more: Any) -> Measured:
    """A millisecond of work beside batches that are received in longer than they are made."""
    parts = {BODY: body_ms / 3, BACKWARD: body_ms / 2, OPTIMIZER: body_ms / 6}
    made = {"workers": 2, "making_ms": making_ms, "ledger": {Part("preprocess", PartKind.TRANSPORT): received_ms, **parts}}
    return merged(merged(made, {"demand": {"collate_ns": 0.3 * MS}}), more)


SLOW_ON_TWO_CORES = fed(1, cpu_ms=70.5, cores=2.0)

# What was measured, the stage, and what fires beside it and is folded into it.
FIRING: dict[str, tuple[Measured, str, tuple[str, ...]]] = {
    "serial-loader": (fed(0, cpu_ms=10.5), "preprocess", ()),
    "serial-loader reading": (fed(0, cpu_ms=1.5, blocked_ms=12.0, storage=True), "read", ()),
    "serial-loader in a loop without a loader": (loop_fed(12.0), "preprocess", ()),
    "serial-loader reading in a loop without a loader": (loop_fed(12.0, blocked_ms=11.0), "read", ()),
    "too-few-workers": (fed(1, cpu_ms=6.5, blocked_ms=24.0, storage=True), "read", ()),
    "too-few-workers of two": (fed(2, cpu_ms=52.5, cores=8.0), "preprocess", ()),
    "slow-collate": (merged(fed(1, cpu_ms=32.0), collates(26)), "preprocess", ("too-few-workers",)),
    "slow-collate serial": (merged(fed(0, cpu_ms=22.0), collates(20)), "preprocess", ("serial-loader",)),
    "slow-transform": (merged(SLOW_ON_TWO_CORES, transform(0.8)), "preprocess", ("too-few-workers",)),
    "small-batch": (small(12.0), "compute", ()),
    "needless-workers": (in_memory(), "preprocess", ()),
    "slow-callback": (calls_back(15.0), "output", ()),
    "slow-callback without a loader": ({"workers": None, **calls_back(15.0)}, "output", ()),
    "blocking-checkpoint": (saves(5, 40.0), "store", ()),
    "unfused-optimizer": (optimizer(12.0), "compute", ()),
}

# The same trainings with one fact changed: just under the threshold, or with the cause elsewhere.
CLOSE: dict[str, Measured] = {
    "serial-loader": fed(0, cpu_ms=0.7),
    "serial-loader in a loop without a loader": loop_fed(0.9),
    "too-few-workers": fed(1, cpu_ms=6.5, blocked_ms=12.0, storage=True),
    "too-few-workers where the cores are used up": fed(1, cpu_ms=70.5, cores=1.0),
    "too-few-workers without any": fed(0, cpu_ms=10.5),
    "slow-collate": merged(fed(1, cpu_ms=25.0), collates(12)),
    "slow-collate that workers hide": merged(fed(3, cpu_ms=32.0), collates(26)),
    "slow-collate by torch's own function of small samples": merged(fed(0, cpu_ms=1.1, body_ms=6.0), collates(0.9, by_torch=True)),
    "slow-transform of no function": SLOW_ON_TWO_CORES,
    "slow-transform with cores to spare": merged(fed(1, cpu_ms=70.5, cores=16.0), transform(0.8)),
    "slow-transform where others use the cores": merged(fed(2, cpu_ms=2.5, blocked_ms=60.0, foreign_cores=3.5), transform(0.8)),
    "small-batch": small(2.0),
    "small-batch in steps that a callback makes long": merged(small(12.0), calls_back(20.0)),
    "needless-workers of batches that take longer to make": in_memory(making_ms=3.0),
    "needless-workers collated by a function of the script": in_memory(making_ms=1.4, **collates(1.3)),
    "needless-workers beside longer steps": in_memory(body_ms=20.0),
    "unfused-optimizer that takes little": optimizer(0.7),
    "unfused-optimizer that is fused already": optimizer(12.0, fused=True),
    "unfused-optimizer that does not say": optimizer(12.0, fused=None),
    "unfused-optimizer that gains nothing": optimizer(12.0, type="SGD"),
    "unfused-optimizer on an accelerator": {**optimizer(12.0, device="cuda"), "device": "cuda"},
    "slow-callback": calls_back(0.5),
    "blocking-checkpoint": saves(25, 12.0),
}


@pytest.mark.parametrize("case", FIRING)
def test_a_training_with_the_problem_gets_its_rule_and_stage(case):
    measured, stage, folded = FIRING[case]

    diagnosis = diagnose(measurements(**measured))

    found, verdict = diagnosis.findings[0], diagnosis.verdict
    assert (found.rule, found.stage) == (case.split()[0], stage)
    assert set(folded) <= set(found.also)
    assert found.claims
    assert (verdict.state, verdict.rule, verdict.stage, verdict.healthy) == ("bottleneck", found.rule, stage, False), verdict.reason


@pytest.mark.parametrize("case", CLOSE)
def test_a_training_close_to_the_problem_is_not_blamed_for_it(case):
    assert answer_of(case.split()[0], measurements(**CLOSE[case])) is None


@pytest.mark.parametrize("case", FIRING)
def test_findings_do_not_claim_the_same_part(case):
    diagnosis = diagnose(measurements(**merged(FIRING[case][0], {} if "checkpoint" in case else saves(10, 30.0))))

    claims = [claim for found in diagnosis.findings for claim in found.claims]
    assert len(claims) == len(set(claims))
    assert len(diagnosis.findings) > ("checkpoint" not in case)


def test_workers_that_bind_save_no_more_than_they_leave():
    m = measurements(**fed(0, cpu_ms=100.0, cores=2.0))

    found = finding("serial-loader", m)

    step_ms = float(m.step_ns.mean()) / MS
    assert found.gain.predicted is not None
    saved_ms = values(found)["fix saves per step"]
    assert saved_ms == pytest.approx(step_ms * (1 - 1 / found.gain.predicted))
    # They make batches in longer than the rest of a step takes.
    assert saved_ms < 90.0


def test_an_unfused_optimizer_is_told_with_its_waits_for_a_core_in_all_its_numbers():
    m = measurements(**merged(optimizer(12.0), {"ledger": {Part("compute", PartKind.CORE_WAIT): every(10, 100.0)}}))

    found = finding("unfused-optimizer", m)

    assert "with its waits for a core" in found.title
    assert values(found)["it takes"] == pytest.approx(found.share * float(m.step_ns.mean()) / MS)
    assert values(found)["it takes"] > values(found)["fix saves per step"] > 12.0


@pytest.mark.parametrize(
    ("case", "name", "value"),
    [
        ("serial-loader", "making batches", 10.5 / 29.52),
        ("serial-loader in a loop without a loader", "made in the loop", "train.py:24"),
        ("too-few-workers of two", "worker time per step", 52.5),
        ("slow-collate", "collate function", "pad_slowly"),
        ("slow-collate", "collating", 26 / 32),
        ("slow-transform", "function", "augment"),
        ("small-batch", "batch size", 2),
        ("needless-workers", "waiting for a batch", 1.2),
        ("slow-callback", "function", "save_mask_images"),
        ("blocking-checkpoint", "fix saves per step", 8),
        ("unfused-optimizer", "it takes", 12),
    ],
)
def test_what_was_measured_is_shown(case, name, value):
    shown = values(finding(case.split()[0], measurements(**FIRING[case][0])))

    assert shown[name] == (value if isinstance(value, str) else pytest.approx(value, rel=0.05))


# Of a callback of 15 ms the step after it is assumed to be 0.8 ms longer.
@pytest.mark.parametrize(
    ("case", "removed_ms"),
    [("serial-loader", 10.5 - 1.0), ("too-few-workers", 30.5 - 19.5), ("slow-callback", 15.8), ("blocking-checkpoint", 8.0)],
)
def test_the_gain_is_of_what_the_fix_removes(case, removed_ms):
    m = measurements(**FIRING[case][0])

    gain = finding(case.split()[0], m).gain
    step_ms = float(m.step_ns.mean()) / MS
    assert gain.predicted == pytest.approx(step_ms / (step_ms - removed_ms), rel=0.05)
    assert gain.low < gain.predicted < gain.high


@pytest.mark.parametrize("fixed_ms", [8.0, 12.0])
def test_a_larger_batch_gains_what_its_fixed_cost_is_shared_by(fixed_ms):
    answer = judged("small-batch", measurements(**small(fixed_ms)))

    assumed = values(answer.finding)["batch size assumed"]
    # A tenth less for each sample beyond the sizes that were seen.
    each = 0.9 * (14.0 - fixed_ms) / 2
    assert answer.finding.gain.predicted == pytest.approx(14.0 / 2 / ((fixed_ms + each * assumed) / assumed), rel=0.1)
    assert answer.finding.fixes[0].lever == f"batch-size={assumed:.0f}"


@pytest.mark.parametrize("whole", [True, False], ids=["in whole updates", "apart"])
def test_of_a_small_batch_the_optimizers_time_is_told_where_it_is_known_apart(whole):
    calls = {"ledger": {Part("compute", PartKind.UPDATES): 3.0}} if whole else {}

    found = finding("small-batch", measurements(**merged(small(12.0), calls)))

    assert ("optimizer" in values(found)) is not whole


@pytest.mark.parametrize(
    ("cost", "foreign", "tries_another"),
    [({"high_ns": None}, 0.0, True), ({"high_ns": None}, 2.0, False), ({}, 0.0, True), ({}, 2.0, True)],
    ids=["not counted", "not counted on a busy machine", "between bounds", "between bounds on a busy machine"],
)
def test_where_the_fixed_cost_is_not_known_another_batch_size_tells_or_a_quieter_machine(cost, foreign, tries_another):
    unknown = {"value_ns": None, "likely_ns": None, "low_ns": 0.0, "high_ns": 12.0 * MS, "smaller": 0, **cost}
    m = measurements(**merged(small(6.0), {"fixed_cost": unknown, "load": {"foreign_cores": foreign}}))

    answer = unjudged("small-batch", m)

    assert answer is not None
    assert answer.change == ("try another batch size" if tries_another else None)


def test_needless_workers_beside_others_are_not_judged_and_not_called_needed():
    m = measurements(**in_memory(load={"foreign_cores": 2.0}))

    assert code_of("needless-workers", m) == "receiving-on-busy-machine"
    assert diagnose(m).verdict.state == "undetermined"


def test_workers_that_may_be_needless_are_not_judged_and_the_lever_that_tells_is_named():
    m = measurements(**in_memory(body_ms=8.2))

    answer, verdict = unjudged("needless-workers", m), diagnose(m).verdict
    assert answer is not None
    assert (answer.reason.code, answer.lever) == ("without-workers-may-gain", "workers=0")
    assert verdict.state == "undetermined"
    assert verdict.reason.holds(answer.reason)


def test_without_needless_workers_nobody_waits_for_a_core_beside_them():
    calm = in_memory(cores=2.0)
    crowded = merged(calm, {"ledger": {Part("compute", PartKind.CORE_WAIT): 0.5}, "making_ms": 0.9, "demand": {"cpu_ns": 0.4 * MS}})

    gains = [finding("needless-workers", measurements(**measured)).gain for measured in (calm, crowded)]

    assert gains[0].predicted < gains[1].predicted


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad"])
def test_of_a_small_batch_an_optimizer_that_takes_most_is_fused_first(kind):
    cost = {"value_ns": 13.0 * MS, "likely_ns": 13.0 * MS, "low_ns": 12.5 * MS, "high_ns": 14.0 * MS, "step_ns": 20.5 * MS, "samples": 2.0}
    m = measurements(**merged(optimizer(12.0, type=kind), {"fixed_cost": cost, "samples": 2.0}))

    found = diagnose(m).findings[0]

    assert (found.rule, found.also) == ("unfused-optimizer", ("small-batch",))
    assert found.folded[0].fixes[0].lever == "batch-size=16"
    assert f"{kind}(" in found.fixes[0].text


def test_of_a_small_batch_an_optimizer_that_takes_little_of_it_is_fused_later():
    cost = {"value_ns": 11.0 * MS, "likely_ns": 11.0 * MS, "low_ns": 10.5 * MS, "high_ns": 11.5 * MS, "step_ns": 12.5 * MS, "samples": 2.0}
    m = measurements(**merged(optimizer(4.0), {"fixed_cost": cost, "samples": 2.0}))

    found = diagnose(m).findings[0]

    assert (found.rule, found.also) == ("small-batch", ("unfused-optimizer",))
    assert found.fixes[0].lever.startswith("batch-size=")


@pytest.mark.parametrize(
    ("takes_ms", "high_ms", "state"),
    [(8.0, None, "undetermined"), (8.0, 14.0, "bottleneck"), (8.0, 18.0, "undetermined"), (11.0, None, "bottleneck")],
)
def test_an_optimizer_does_not_lead_that_may_be_the_lesser_part_of_a_cost_that_could_not_be_judged(takes_ms, high_ms, state):
    high, likely = (None, None) if high_ms is None else (high_ms * MS, 12.0 * MS)
    cost = {"value_ns": None, "likely_ns": likely, "low_ns": 4.0 * MS, "high_ns": high, "step_ns": 20.0 * MS, "samples": 2.0}
    m = measurements(**merged(optimizer(takes_ms), {"fixed_cost": cost, "samples": 2.0}))

    diagnosis = diagnose(m)

    assert "small-batch" in {skipped.rule for skipped in diagnosis.not_judged}
    assert (diagnosis.findings[0].rule, diagnosis.verdict.state) == ("unfused-optimizer", state)
    assert state == "bottleneck" or diagnosis.verdict.reason.code == "rule-not-judged"


@pytest.mark.parametrize(
    ("framework", "has_fused"), [("torch", True), ("lightning", True), ("keras", False), ("jax", False), ("tensorflow", False)]
)
def test_of_a_small_batch_a_fused_optimizer_is_advised_to_those_who_can_choose_one(framework, has_fused):
    cost = {"value_ns": 11.0 * MS, "likely_ns": 11.0 * MS, "low_ns": 10.5 * MS, "high_ns": 11.5 * MS, "step_ns": 12.5 * MS, "samples": 2.0}
    words = words_of_loop([], framework)

    found = finding("small-batch", measurements(words=words, **merged(optimizer(1.0, type="SGD"), {"fixed_cost": cost, "samples": 2.0})))

    assert words.advise(Remedy.COMPILE) in found.fixes[-1].text
    assert ("foreach" in found.fixes[-1].text) is has_fused


@pytest.mark.parametrize(("function", "shown"), [(transform(0.8), "augment"), ({"fetch_function": None}, None)], ids=["one", "none"])
def test_where_the_training_makes_its_batches_the_function_that_holds_most_of_it_is_named(function, shown):
    found = finding("serial-loader", measurements(**merged(fed(0, cpu_ms=6.5), function)))

    assert values(found).get("most of it in") == shown


def test_a_transform_cannot_be_judged_without_timed_calls():
    answer = unjudged("slow-transform", measurements(**merged(SLOW_ON_TWO_CORES, {"timed_fetches": 0, "fetch_function": None})))

    assert answer is not None
    assert (answer.reason.code, answer.advisory) == ("no-call-timed", False)


def test_load_of_others_widens_the_interval():
    quiet, busy = (
        finding("too-few-workers", measurements(**fed(1, cpu_ms=6.5, blocked_ms=40.0, delay_ms=10.0, foreign_cores=cores))).gain
        for cores in (0.5, 3.0)
    )

    assert busy.high - busy.low > 1.2 * (quiet.high - quiet.low)


def test_rules_of_a_loader_have_nothing_to_say_of_a_loop_without_one():
    loader = {"too-few-workers", "slow-collate", "needless-workers", "batch-transport", "worker-restart", "iterator-recreated"}

    answers = {rule: answer_of(rule, measurements(workers=None)) for rule in loader}

    assert not [rule for rule, answer in answers.items() if isinstance(answer, Judged | NotJudged)]
    assert named(measurements(workers=None)) == []


def test_a_write_leaves_a_tenth_of_its_time_at_worst():
    """Copying the state to memory, for a thread that writes it."""
    counterfactual = judged("blocking-checkpoint", measurements(**saves(5, 40.0))).counterfactual

    assert counterfactual is not None
    assert (counterfactual.expected.removed_ns.mean() / MS, counterfactual.pessimistic.removed_ns.mean() / MS) == pytest.approx((8.0, 7.2))
