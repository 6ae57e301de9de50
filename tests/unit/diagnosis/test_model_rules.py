"""Rules on what the whole model is: its numbers' format, what is on while it trains, where it computes, the line that holds most of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from judged import answer_of, finding, named, values
from made_measurements import SCRIPT, changed, measurements
from made_parts import function_part
from slowstep.analyses.compute.anomaly import AnomalyCost
from slowstep.analyses.compute.forward_function import ForwardFunction
from slowstep.analyses.compute.forward_line import ForwardCall, ForwardLine
from slowstep.analyses.compute.work import DebugMode
from slowstep.calibration.computing import CHECKED_ELEMENT, CHECKED_NODE, WRITING_STACKS
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import BACKWARD, BODY
from slowstep.reason_words import sentence
from slowstep.timeline.timeline import Frame

ANOMALY, DETERMINISTIC, PROFILER = DebugMode.ANOMALY, DebugMode.DETERMINISTIC, DebugMode.FRAMEWORK_PROFILER
CALLED = {ANOMALY: "anomaly detection", DETERMINISTIC: "deterministic algorithms", PROFILER: "torch.profiler"}
CALLBACK = function_part("output", "after_step", "train.py", 80)


def work(**facts: Any) -> dict[str, Any]:
    return {"work": facts}


def test_parameters_in_float64_are_the_cause():
    m = measurements(**work(dtypes={"float64": 90, "float32": 10}))

    found, verdict = finding("double-precision", m), diagnose(m).verdict
    assert (verdict.rule, verdict.stage) == ("double-precision", "compute")
    assert found.fixes[0].changes_numerics
    assert values(found)["float64"] == pytest.approx(0.9)
    # 19 ms of compute take 1.8 times as long as in float32.
    assert found.gain.predicted == pytest.approx(19.5 / (19.5 - 19 * (1 - 1 / 1.8)), rel=0.01)
    assert 1.03 < found.gain.low < found.gain.predicted < found.gain.high < 3.5


def test_convolutions_gain_more_of_smaller_numbers():
    gains = [finding("double-precision", measurements(**work(dtypes={"float64": 1}, convolutions=share))).gain for share in (0.0, 1.0)]

    assert gains[1].predicted > 1.4 * gains[0].predicted


@pytest.mark.parametrize("dtypes", [None, {"float32": 100}, {"float64": 40, "float32": 60}, {}], ids=str)
def test_parameters_of_which_few_are_float64_are_not(dtypes):
    assert answer_of("double-precision", measurements(**work(dtypes=dtypes))) is None


def test_parameters_in_float64_on_an_accelerator_have_another_ratio_and_are_not_judged():
    assert answer_of("double-precision", measurements(device="cuda", **work(dtypes={"float64": 90, "float32": 10}))) is None


@pytest.mark.parametrize(("convolutions", "is_advice"), [(0.8, False), (0.05, True), (None, True)])
def test_fast_kernels_that_are_off_cost_what_convolutions_take_longer(convolutions, is_advice):
    found = finding("debug-mode-on", measurements(**work(modes={DebugMode.PLAIN_KERNELS: 1.0}, convolutions=convolutions)))

    assert (found.advisory, found.gain.predicted is None) == (is_advice, is_advice)
    if not is_advice:
        assert values(found)["fix saves per step"] == pytest.approx(19 * 0.8 * (1 - 1 / 1.4), rel=0.01)


def test_on_an_accelerator_kernels_for_processors_are_none_of_it():
    assert answer_of("debug-mode-on", measurements(device="cuda", **work(modes={DebugMode.PLAIN_KERNELS: 1.0}, convolutions=0.9))) is None


def test_anomaly_detection_leaves_no_training_healthy():
    m = measurements(**work(modes={ANOMALY: 1.0}))

    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("undetermined", None)
    found = finding("debug-mode-on", m)
    assert found.gain.predicted is None
    assert "for all of compute" in found.title
    assert verdict.reason is not None
    assert "it is on for all of compute, " in sentence(verdict.reason)
    assert [fix.lever for fix in found.fixes] == ["anomaly-off"]


ANOMALY_COST = AnomalyCost(writing=0.2, low=0.15, high=0.25, operations=50.0, elements=1e6)


def test_what_anomaly_detection_writes_down_and_checks_is_gained_without_it():
    m = measurements(**work(modes={ANOMALY: 1.0}, anomaly=ANOMALY_COST))

    found, verdict = finding("debug-mode-on", m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", "debug-mode-on")
    step_ns = float(m.step_ns.mean())
    removed_ns = 0.2 * WRITING_STACKS.value * step_ns + 50 * CHECKED_NODE.value + 1e6 * CHECKED_ELEMENT.value
    assert found.gain.predicted == pytest.approx(step_ns / (step_ns - removed_ns))
    assert found.gain.low < found.gain.predicted < found.gain.high


def test_what_is_checked_may_be_all_of_compute_where_nobody_counted_it():
    counted, uncounted = (
        finding("debug-mode-on", measurements(**work(modes={ANOMALY: 1.0}, anomaly=cost))).gain.high
        for cost in (ANOMALY_COST, replace(ANOMALY_COST, elements=None))
    )

    assert counted is not None
    assert uncounted is None or uncounted > 2 * counted


@pytest.mark.parametrize(
    ("modes", "anomaly"),
    [({ANOMALY: 1.0, PROFILER: 0.2}, ANOMALY_COST), ({ANOMALY: 1.0}, None)],
    ids=["a profiler is on too", "few stacks"],
)
def test_what_else_is_on_or_not_seen_leaves_the_gain_unknown(modes, anomaly):
    assert finding("debug-mode-on", measurements(**work(modes=modes, anomaly=anomaly))).gain.predicted is None


@pytest.mark.parametrize(
    ("modes", "fires", "advisory"),
    [
        ({}, False, False),
        ({PROFILER: 0.02}, False, False),
        ({PROFILER: 0.5}, True, False),
        ({DebugMode.DEBUGGER: 1.0}, True, False),
        ({DETERMINISTIC: 1.0}, True, True),
    ],
    ids=["nothing", "a profiler for a moment", "a profiler", "a debugger", "deterministic algorithms"],
)
def test_what_is_on_counts_for_as_long_as_it_was(modes, fires, advisory):
    m = measurements(**work(modes=modes))

    answer = answer_of("debug-mode-on", m)
    assert (answer is not None) is fires
    if fires:
        found = finding("debug-mode-on", m)
        said = {CALLED.get(mode, "a debugger or coverage tool (sys.settrace)"): on for mode, on in modes.items()}
        assert (found.advisory, values(found)) == (advisory, said)
    assert (diagnose(m).verdict.state == "healthy") is (not fires or advisory)


PACKAGES = "/usr/lib/python3.11/site-packages"
LIGHTNING = f"{PACKAGES}/lightning/pytorch/loops/fit_loop.py"
HUGGING_FACE = f"{PACKAGES}/transformers/trainer.py"


@pytest.mark.parametrize(
    ("file", "mode", "says"),
    [
        (LIGHTNING, ANOMALY, "Trainer(detect_anomaly=False)"),
        (LIGHTNING, DETERMINISTIC, "Trainer(deterministic=False)"),
        (HUGGING_FACE, ANOMALY, "torch.autograd.set_detect_anomaly(False)"),
        (HUGGING_FACE, DETERMINISTIC, "TrainingArguments(full_determinism=False)"),
    ],
)
def test_what_a_trainer_sets_itself_is_turned_off_by_its_argument(file, mode, says):
    way = (Frame(file="train.py", function="main", first_line=10, line=30), Frame(file=file, function="run", first_line=1, line=2))

    found = finding("debug-mode-on", measurements(**work(modes={mode: 1.0}), trainer={"facts": {"training_paths": {0: way}}}))

    assert says in found.fixes[0].text


def test_the_finding_that_the_verdict_rests_on_comes_first_whatever_others_gain():
    m = measurements(**work(modes={ANOMALY: 1.0}), ledger={CALLBACK: 1.5}, stacks={CALLBACK: 500})

    diagnosis = diagnose(m)
    assert named(m) == ["debug-mode-on", "slow-callback"]
    assert 1.0 < (diagnosis.findings[1].gain.predicted or 0.0) < 1.1
    # What binds once an unknown gain is had is unknown, too.
    assert diagnosis.next is None


GPU: dict[str, Any] = {"accelerators": {"nvidia": 2}, "accelerator_built": False}


@pytest.mark.parametrize(("built", "fixes"), [(False, 2), (True, 1)])
def test_an_accelerator_that_is_left_alone_is_said_and_the_build_that_cannot_use_it(built, fixes):
    m = measurements(**work(**{**GPU, "accelerator_built": built}))

    found = finding("device-not-used", m)
    assert (values(found)["accelerators"], len(found.fixes)) == (2, fixes)
    assert diagnose(m).verdict.state == "undetermined"


@pytest.mark.parametrize(
    "measured",
    [work(accelerators={}), work(**GPU, accelerators_hidden=True), {**work(**GPU), "device": "cuda"}],
    ids=["none here", "hidden on purpose", "in use"],
)
def test_an_accelerator_that_is_hidden_or_in_use_is_no_problem(measured):
    assert answer_of("device-not-used", measurements(**measured)) is None


LINE: dict[str, Any] = {
    "function": "Net.forward", "where": "model.py:35", "operation": "Conv2d", "share": 0.8, "forward_share": 0.5, "stacks": 60, "lines": 3
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "fires"),
    [({}, True), ({"share": 0.45}, False), ({"forward_share": 0.3}, False), ({"lines": 1}, False)],
    ids=str,
)
def test_a_line_that_holds_most_of_the_forward_is_advice(change, fires):
    m = measurements(ledger={BODY: 17.0, BACKWARD: 0.2}, **work(forward_line=ForwardLine(**{**LINE, **change})))

    assert (answer_of("dominant-module", m) is not None) is fires
    if fires:
        found = finding("dominant-module", m)
        assert (found.advisory, values(found)["line"]) == (True, "model.py:35")


FUNCTION: dict[str, Any] = {
    "function": "Triplets.nearest", "file": SCRIPT, "first_line": 36, "where": "train.py:36", "share": 0.6, "low": 0.25, "high": 0.6,
    "bodies": 3, "multiplies": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "fires"),
    [
        ({}, True),
        ({"multiplies": 0.5}, False),
        ({"multiplies": None}, False),
        ({"share": 0.45}, False),
        ({"low": 0.05}, False),
    ],
    ids=["element by element", "a half multiplies", "unknown calls", "less than half", "perhaps hardly anything"],
)
def test_a_function_that_holds_most_of_the_step_element_by_element_is_not_called_healthy(change, fires):
    m = measurements(ledger={BODY: 17.0, BACKWARD: 2.0}, **work(forward_function=ForwardFunction(**{**FUNCTION, **change})))

    assert (answer_of("dominant-module", m) is not None) is fires
    verdict = diagnose(m).verdict
    assert verdict.state == ("undetermined" if fires else "healthy")
    if fires:
        found = finding("dominant-module", m)
        of = (m.ledger.share_of(BODY) + m.ledger.share_of(BACKWARD)) * 0.6
        assert (found.share, values(found)["function"]) == (pytest.approx(of), "Triplets.nearest")
        assert found.gain.headroom == pytest.approx(1 / (1 - of))


@pytest.mark.parametrize("known", ["loop", "outside_model"])
def test_a_function_that_other_rules_know_is_left_to_them(known):
    other = SimpleNamespace(file=SCRIPT, first_line=36)
    m = measurements(ledger={BODY: 17.0, BACKWARD: 2.0}, **work(forward_function=ForwardFunction(**FUNCTION)))
    work_of = replace(m.compute.work, **{known: other})

    assert answer_of("dominant-module", changed(m, work=work_of)) is None


# 6 of 19.5 ms are forward, 12 are backward.
CALL: dict[str, Any] = {
    "name": "self.wide", "operation": "Conv2d", "share": 0.85, "window_share": 0.26, "low": 0.22, "high": 0.3, "is_one": True
}  # fmt: skip


def of_call(**change: Any) -> dict[str, Any]:
    return work(forward_line=ForwardLine(**{**LINE, "forward_share": 0.31, "call": ForwardCall(**{**CALL, **change})}))


def test_one_operation_that_surely_holds_most_of_the_step_with_its_backward_leaves_no_training_healthy():
    m = measurements(**of_call())

    found, verdict = finding("dominant-module", m), diagnose(m).verdict
    assert not found.advisory
    # At least what is left of backward by 3.2 times the rest of the forward, and by 5.2 ns for each weight.
    weights_ms = (m.trainer.facts.graph_elements or 0) * 5.2e-6
    least = 0.22 + (12 - 3.2 * (6 - 0.22 * 19.5) - weights_ms) / 19.5
    assert found.share_low == pytest.approx(least, abs=1e-6)
    # Expected is the same share of it as of the forward.
    assert found.share == pytest.approx(0.26 + 0.85 * 12 / 19.5)
    assert found.gain.predicted is None
    assert found.gain.headroom == pytest.approx(1 / (1 - found.share))
    assert (verdict.state, verdict.rule) == ("undetermined", None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.values["rule"]) == ("gain-not-known", "dominant-module")
    bound = verdict.reason.values["bound"]
    assert bound.values["headroom"] == found.gain.headroom


@pytest.mark.parametrize("low", [0.12, 0.18])
def test_one_operation_that_is_expected_to_hold_half_of_the_step_and_surely_a_tenth_leaves_it_open(low):
    m = measurements(**of_call(low=low))

    found = finding("dominant-module", m)
    assert 0.1 < found.share_low < 0.5 < found.share
    assert not found.advisory
    assert diagnose(m).verdict.state == "undetermined"


def test_a_call_that_others_may_leave_without_any_backward_is_said_to_take_its_forward_alone():
    m = measurements(ledger={BODY: 17.0, BACKWARD: 2.0}, **of_call(low=0.5, window_share=0.55, high=0.6))

    found = finding("dominant-module", m)
    assert found.share == pytest.approx(0.55)
    assert "backward" not in found.title


@pytest.mark.parametrize(
    "change", [{"is_one": False}, {"is_one": None}, {"low": 0.05}, {"low": 0.12, "window_share": 0.16, "share": 0.55}], ids=str
)
def test_what_may_be_a_whole_model_or_less_than_half_of_the_step_is_said_of_a_healthy_one(change):
    m = measurements(**of_call(**change))

    verdict = diagnose(m).verdict
    assert finding("dominant-module", m).advisory
    assert verdict.state == "healthy"
    assert verdict.reason is not None
    assert (verdict.reason.values["most"].code, verdict.reason.values["most"].values["line"]) == ("most-by-line", "model.py:35")


def test_a_line_on_an_accelerator_is_advice_only():
    line = of_call()["work"]["forward_line"]
    m = measurements(device="cuda", **work(forward_line=replace(line, forward_share=0.9)))

    assert finding("dominant-module", m).advisory


def test_a_healthy_training_of_which_no_line_holds_most_names_none():
    reason = diagnose(measurements(**work(forward_line=ForwardLine(**{**LINE, "share": 0.5, "forward_share": 0.31})))).verdict.reason

    assert reason is not None
    assert reason.values["most"] is None


@pytest.mark.parametrize(("operation", "is_named"), [("Conv2d", True), ("LSTMCell", False), (None, False)])
def test_another_layout_is_advised_to_convolutions_only(operation, is_named):
    m = measurements(**work(forward_line=ForwardLine(**{**LINE, "operation": operation})))

    assert ("channels_last" in finding("dominant-module", m).fixes[0].text) is is_named
