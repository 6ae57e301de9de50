"""The rule many-host-steps, on steps of Keras' fit that are one call each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from judged import answer_of, finding, judged, named, values
from made_measurements import HEALTHY, every, measurements
from slowstep.analyses.compute.dispatched import of_timed
from slowstep.analyses.compute.timed_operations import measure_timed_operations
from slowstep.analyses.measurements import Measurements
from slowstep.calibration.compiling import STEP_IN_A_CALL
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rules.compute.many_host_steps import AHEAD
from slowstep.findings import NotJudged
from slowstep.frameworks._known import all_words
from slowstep.parts import NOT_ATTRIBUTED, UPDATES, CodePlace, Part, PartKind

RULE = "many-host-steps"
PROGRESS = Part("output", PartKind.PROGRESS_BAR, "ProgbarLogger.on_train_batch_end")
CALLBACK = Part("output", PartKind.CALLBACK, "Plot.on_train_batch_end", CodePlace("train.py", 30))
# A few operations of a step that were timed, of which nothing else matters.
TIMED = dict.fromkeys(("above_low_ns", "above_four_times_ns", "above_sixteen_times_ns", "timing_ns", "delay_ns"), 0) | {
    **dict.fromkeys(("at_ns", "wall_ns", "cpu_ns", "operations_ns", "operations_cpu_ns"), 5_000_000),
    **dict.fromkeys(("low_ns", "short_gaps_ns", "gaps_ns", "capped_gaps_ns"), 10_000),
    "asynchronous": False,
}
START = Part("preprocess", PartKind.LOADER_START)
VALIDATION = Part("output", PartKind.VALIDATION)


def fitted(call_ms: Any, ledger: dict[Part, Any], *, words: str = "keras", said: Any = None, **changes: Any) -> Measurements:
    """A training whose steps are one call each, with what is between two calls."""
    nothing = dict.fromkeys(HEALTHY, 0.0)
    facts = {"framework": "keras", "optimizers": False, "asynchronous": False} | (said or {})
    return measurements(
        ledger=nothing | {UPDATES: call_ms} | ledger,
        notes={"facts": facts},
        words=all_words()[words],
        **{"reads": "arrays", "steps": 400, "workers": None, **changes},
    )


def test_python_around_short_calls_is_the_bottleneck_and_is_paid_once_for_many_of_them():
    m = fitted(5.0, {PROGRESS: 1.0, NOT_ATTRIBUTED: 0.5})

    found = finding(RULE, m)
    assert diagnose(m).verdict.rule == RULE
    assert values(found)["between two calls"] == pytest.approx(1.5)
    # 2.15 ms are there once in a call, and less than a twentieth of the other 4.35 is left of them with 16 steps.
    assert values(found)["steps in a call assumed"] == 16
    assert found.fixes[0].lever == "steps-per-execution=16"
    assert "compile(..., steps_per_execution=16)" in found.fixes[0].text
    assert found.gain.predicted == pytest.approx(6.5 / (6.5 - 2.15 * 15 / 16))
    assert found.gain.low < found.gain.predicted < found.gain.high


def test_of_a_call_as_short_as_what_starts_one_a_part_is_left():
    m = fitted(0.4, {NOT_ATTRIBUTED: 0.1})

    assert values(finding(RULE, m))["starting a call, assumed"] == pytest.approx(0.32)
    assert finding(RULE, m).gain.predicted == pytest.approx(0.5 / (0.5 - 0.42 * 63 / 64))


@pytest.mark.parametrize("between_ms", [0.5, 1.0])
def test_beside_long_calls_the_same_is_nothing(between_ms):
    assert answer_of(RULE, fitted(50.0, {PROGRESS: between_ms / 2, NOT_ATTRIBUTED: between_ms / 2})) is None


def test_what_comes_once_an_epoch_is_none_of_it():
    m = fitted(25.0, {NOT_ATTRIBUTED: np.array(every(20, 60.0, 400)) + 0.1, VALIDATION: every(20, 100.0, 400)})

    assert answer_of(RULE, m) is None


def test_callbacks_that_hold_more_than_the_loop_itself_are_not_its():
    short, long = (fitted(5.0, {NOT_ATTRIBUTED: 0.4, CALLBACK: ms}) for ms in (0.3, 3.0))

    assert values(finding(RULE, short))["callbacks of it"] == pytest.approx(0.3)
    assert values(finding(RULE, long))["callbacks of it"] == 0
    assert values(finding(RULE, long))["between two calls"] == pytest.approx(0.4)


def test_callbacks_that_it_removes_are_its_own_and_count_once():
    short, long = (fitted(5.0, {NOT_ATTRIBUTED: 0.4, CALLBACK: ms}) for ms in (0.5, 3.0))

    assert CALLBACK in finding(RULE, short).claims
    assert "slow-callback" not in [found.rule for found in diagnose(short).findings]
    assert CALLBACK not in finding(RULE, long).claims
    assert "slow-callback" in [found.rule for found in diagnose(long).findings]


def test_beside_a_slow_callback_nothing_is_said_of_a_loop_that_takes_little():
    assert RULE not in named(fitted(50.0, {NOT_ATTRIBUTED: 0.4, CALLBACK: 30.0}))


def test_at_worst_callbacks_take_as_long_for_many_batches_as_for_each():
    counterfactual = judged(RULE, fitted(5.0, {NOT_ATTRIBUTED: 0.4, CALLBACK: 0.3})).counterfactual

    # Eight steps in a call.
    assert counterfactual.pessimistic.removed_ns.mean() == pytest.approx((0.4e6 + STEP_IN_A_CALL.bounds[0]) * 7 / 8)
    assert counterfactual.expected.removed_ns.mean() == pytest.approx((0.7e6 + STEP_IN_A_CALL.value) * 7 / 8)


def test_of_calls_that_make_several_steps_as_many_more_are_to_be_made():
    m = fitted(5.0, {NOT_ATTRIBUTED: 0.5})
    several = fitted(5.0, {NOT_ATTRIBUTED: 0.5}, all_updates=m.trainer.all_updates.with_columns(updates=np.full(400, 4)))

    assert finding(RULE, m).fixes[0].lever == "steps-per-execution=8"
    assert finding(RULE, several).fixes[0].lever == "steps-per-execution=32"


@pytest.mark.parametrize(("epoch", "together"), [(100, 16), (10, 8), (3, 2)])
def test_no_call_is_to_make_more_steps_than_an_epoch_has(epoch, together):
    assert values(finding(RULE, fitted(5.0, {NOT_ATTRIBUTED: 1.5, START: every(epoch, 1.0, 400)})))["steps in a call assumed"] == together


@pytest.mark.parametrize(("asked", "own", "together"), [(6, 1, 6), (15, 1, 15), (1000, 1, 10), (100, 4, 100)])
def test_a_call_makes_a_number_of_steps_that_divides_those_asked_for_of_an_epoch_whose_data_go_on(asked, own, together):
    calls = fitted(5.0, {}).trainer.all_updates.with_columns(updates=np.full(400, own))
    found = finding(RULE, fitted(5.0, {NOT_ATTRIBUTED: 1.5}, said={"steps_per_epoch": asked}, all_updates=calls))

    assert values(found)["steps in a call assumed"] == together
    assert f"steps_per_execution={together}), which is to divide steps_per_epoch" in found.fixes[0].text


def test_where_no_number_divides_them_nothing_is_said():
    assert answer_of(RULE, fitted(5.0, {NOT_ATTRIBUTED: 1.5}, said={"steps_per_epoch": 67})) is None


def test_the_last_call_of_an_epoch_may_make_fewer_steps_and_saves_less():
    removed_ns = judged(RULE, fitted(5.0, {NOT_ATTRIBUTED: 1.5, START: every(3, 1.0, 400)})).counterfactual.expected.removed_ns

    # Two calls instead of three.
    assert removed_ns.mean() == pytest.approx((1.5e6 + STEP_IN_A_CALL.value) / 3)


def test_of_epochs_of_one_batch_no_two_steps_are_made_in_a_call():
    assert answer_of(RULE, fitted(5.0, {NOT_ATTRIBUTED: 1.5, START: 1.0})) is None


@pytest.mark.parametrize("changes", [{"reads": None}, {"words": "tensorflow"}, {"words": "torch"}, {"said": {"asynchronous": True}}])
def test_of_a_loop_of_the_scripts_own_and_of_calls_that_return_early_nothing_is_said(changes):
    assert answer_of(RULE, fitted(1.0, {NOT_ATTRIBUTED: 0.5}, **changes)) is None


@pytest.mark.parametrize(
    ("call_ms", "changes", "is_open"),
    [
        (0.3, {}, True),
        (1.2, {}, False),
        (0.3, {"reads": "arrays"}, False),
        (0.3, {"said": {"asynchronous": False}}, False),
        (0.3, {"said": {"asynchronous": True, "optimizers": True}}, False),
    ],
)
def test_of_short_calls_of_a_loop_that_return_early_it_is_said_that_nothing_is_known(call_ms, changes, is_open):
    m = fitted(call_ms, {}, **{"words": "jax", "reads": None, "said": {"asynchronous": True}, **changes})

    answer = answer_of(RULE, m)
    assert (isinstance(answer, NotJudged) and answer.reason.of(AHEAD)) is is_open


@pytest.mark.parametrize(("operations", "is_judged"), [(6, True), (300, False)])
def test_of_steps_that_run_operation_by_operation_nothing_is_said(operations, is_judged):
    dispatched = of_timed(measure_timed_operations([TIMED | {"operations": operations}] * 5))

    assert (RULE in named(fitted(5.0, {NOT_ATTRIBUTED: 1.5}, dispatched=dispatched))) is is_judged


def test_what_makes_the_next_batch_meanwhile_bounds_the_gain():
    m = fitted(5.0, {NOT_ATTRIBUTED: 1.0}, workers=1, making_ms=5.5)

    assert finding(RULE, m).gain.predicted == pytest.approx(6.0 / 5.5, abs=0.01)


def test_waits_for_a_core_go_with_what_is_spared_of_the_calls_in_proportion():
    core_wait = Part("compute", PartKind.CORE_WAIT)
    alone, queued = (judged(RULE, fitted(5.0, {PROGRESS: 1.0, core_wait: ms})) for ms in (0.0, 5.0))

    assert values(queued.finding)["steps in a call assumed"] == values(alone.finding)["steps in a call assumed"] == 8
    # What lies between two calls waits in other stages.
    more_ns = STEP_IN_A_CALL.value * 7 / 8
    expected = queued.counterfactual.expected
    assert expected.removed_ns.mean() == pytest.approx(alone.counterfactual.expected.removed_ns.mean() + more_ns)
    assert expected.delay_share == pytest.approx(more_ns / expected.removed_ns.mean())


@pytest.mark.parametrize("waited_ms", [0.0, 5.0])
def test_of_steps_without_a_call_nothing_is_said(waited_ms):
    assert answer_of(RULE, fitted(0.0, {PROGRESS: 1.0, Part("compute", PartKind.CORE_WAIT): waited_ms})) is None


def test_a_progress_bar_is_to_come_once_an_epoch():
    bar = Part("output", PartKind.PROGRESS_BAR, "ProgbarLogger.on_train_batch_end")

    fixes = finding(RULE, fitted(5.0, {NOT_ATTRIBUTED: 0.4, bar: 0.6})).fixes

    assert [("verbose=2" in fix.text) for fix in fixes] == [False, True]
