"""The rule eager-step, on what timed steps say of their operations, and on what stacks say of a device that waits for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judged import answer_of, code_of, finding, judged, named, values
from made_measurements import MADE_BY_LOOP, measurements
from slowstep.analyses.compute.dispatched import of_stacks, of_timed
from slowstep.analyses.compute.timed_operations import measure_timed_operations
from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.frameworks._known import all_words
from slowstep.parts import UPDATES
from slowstep.timeline.timeline import Frame

RULE = "eager-step"
MS, US = 1_000_000, 1000
# 19 ms from one update to the next: Python between 300 operations of 15 us each, which compute next to nothing.
SMALL: dict[str, Any] = {
    "at_ns": 0, "wall_ns": 19 * MS, "cpu_ns": 19 * MS, "delay_ns": 0, "timing_ns": 0, "asynchronous": False, "operations": 300,
    "operations_ns": 4500 * US, "operations_cpu_ns": 4500 * US, "low_ns": 8 * US,
    "above_low_ns": 1500 * US, "above_four_times_ns": 300 * US,
    "above_sixteen_times_ns": 0, "short_gaps_ns": 12 * MS, "gaps_ns": 13 * MS, "capped_gaps_ns": 13 * MS,
}  # fmt: skip
# The same in steps of ten times as long, of which convolutions on helping threads hold the rest.
LARGE = {
    **SMALL, "wall_ns": 190 * MS, "cpu_ns": 100 * MS, "operations_ns": 175 * MS, "operations_cpu_ns": 85 * MS,
    "above_low_ns": 82 * MS, "above_four_times_ns": 81 * MS, "above_sixteen_times_ns": 80 * MS,
}  # fmt: skip

SAMPLED = ByOperation(
    idled=60,
    worked=20,
    of=100,
    low=0.5,
    high=0.7,
    high_of_all=0.86,
    most=50,
    frame=Frame(file="/home/update.py", function="update", first_line=1, line=9),
)


def stepping(note: dict[str, Any], timed: int = 5, **changes: Any) -> Measurements:
    """A training of steps of 19.5 ms, in some of which operations were timed, as this note says."""
    return measurements(dispatched=of_timed(measure_timed_operations([note] * timed)), **{"making_ms": 0.5, **changes})


def updating(found: ByOperation | None, **more: Any) -> Measurements:
    """Steps of 10 ms that are nothing but updates, on a device that works while the host goes on."""
    nothing = dict.fromkeys(measurements().ledger.parts, 0.0)
    dispatched = None if found is None else of_stacks(found, 10 * MS)
    return measurements(workers=None, ledger=nothing | {UPDATES: 10.0}, dispatched=dispatched, **more)


def test_small_operations_called_one_by_one_are_the_bottleneck_and_what_tracing_leaves_of_the_step_is_known():
    m = stepping(SMALL)

    found = finding(RULE, m)
    verdict = diagnose(m).verdict

    assert (verdict.state, verdict.rule) == ("bottleneck", RULE)
    # 13 ms of Python, 4.2 of 4.5 ms and 45 % of the rest, less what five of 300 operations take and a fiftieth of all, of 19 ms.
    assert found.share == pytest.approx((17.2 * (1 - 5 / 300 - 0.02) + 0.45 * 0.3) / 19, abs=0.02)
    assert found.gain.low < found.gain.predicted < found.gain.high
    assert found.gain.predicted == pytest.approx(19 / (19 - 16.7), rel=0.1)


def test_what_makes_the_next_batch_meanwhile_bounds_the_gain():
    assert finding(RULE, stepping(SMALL, making_ms=6.5)).gain.predicted == pytest.approx(3.0)


def test_a_step_whose_operations_are_large_gains_what_handing_them_over_takes():
    found = finding(RULE, stepping(LARGE))

    assert 1.02 < found.gain.predicted < 1.12
    # What else holds the compute is found beside it.
    assert not {part for part in found.claims if part.piece is None}


@pytest.mark.parametrize("changes", [{"operations": 6}, {"gaps_ns": 0, "operations_ns": 700 * US, "operations_cpu_ns": 700 * US}])
def test_a_step_of_few_operations_or_of_little_python_is_clean(changes):
    assert answer_of(RULE, stepping({**SMALL, **changes})) is None


def test_nothing_is_said_where_nothing_was_timed():
    assert answer_of(RULE, measurements()) is None


def test_what_sleeps_or_waits_for_its_input_is_no_handing_over():
    # 1.9 of 190 ms between updates.
    m = stepping({**SMALL, "wall_ns": 600 * MS}, ledger={MADE_BY_LOOP: 600.0}, workers=None)

    assert RULE not in named(m)


def test_waits_for_a_core_are_taken_for_neither_computing_nor_handing_over():
    busy = {**SMALL, "wall_ns": 38 * MS, "delay_ns": 19 * MS, "operations_ns": 9 * MS}

    assert finding(RULE, stepping(busy)).gain.predicted == pytest.approx(finding(RULE, stepping(SMALL)).gain.predicted, rel=0.02)


def test_what_helpers_wait_for_cores_is_no_part_of_what_compiling_takes_away():
    # Of 60 ms an operation waits 25 for helpers that get no core.
    starved = {
        **SMALL, "wall_ns": 60 * MS, "cpu_ns": 35 * MS, "operations_ns": 45 * MS, "operations_cpu_ns": 20 * MS, "helpers_cpu_ns": 0,
        "above_low_ns": 5 * MS, "above_four_times_ns": 5 * MS, "above_sixteen_times_ns": 5 * MS, "gaps_ns": 15 * MS,
    }  # fmt: skip
    case = judged(RULE, stepping(starved)).counterfactual.expected

    # 30 ms of handing over, less what five of 300 operations take and a fiftieth of all.
    assert case.removed_ns.sum() / stepping(starved).step_ns.sum() == pytest.approx(30 * (1 - 5 / 300 - 0.02) / 60, rel=0.01)


def test_nothing_is_said_where_waits_are_as_long_as_the_timed_steps():
    assert answer_of(RULE, stepping({**SMALL, "delay_ns": 19 * MS})) is None


def test_operations_that_return_before_they_are_done_are_not_judged():
    assert code_of(RULE, stepping({**SMALL, "asynchronous": True})) == "eager-and-asynchronous"


def test_a_few_timed_steps_are_not_judged():
    assert code_of(RULE, stepping(SMALL, timed=3)) == "few-timed-operations"


def test_operations_that_an_idle_device_waits_for_most_of_the_time_are_the_bottleneck():
    m = updating(SAMPLED)

    found, verdict = finding(RULE, m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", RULE), verdict.reason
    # 95 % of 6 ms, and 45 % of the 2 ms in which the device worked.
    assert found.gain.predicted == pytest.approx(10 / (10 - 5.7 - 0.9))
    assert (found.share, found.claims) == (pytest.approx(0.66), (UPDATES,))
    assert values(found)["device idle in single operations"] == 60
    assert found.evidence[-2].where == "home/update.py:9, 50 samples"


def test_at_worst_the_device_worked_on_something_else_and_at_best_on_them_alone():
    case = judged(RULE, updating(SAMPLED)).counterfactual

    assert case.pessimistic.removed_ns.mean() == pytest.approx(0.5 * 0.8 * 10e6)
    assert case.optimistic.removed_ns.mean() == pytest.approx(0.86 * 10e6)


@pytest.mark.parametrize(
    "found", [None, replace(SAMPLED, idled=2, worked=1, low=0.0, high=0.06, high_of_all=0.08)], ids=["none", "2 % of the time"]
)
def test_few_of_them_are_left_alone(found):
    assert answer_of(RULE, updating(found)) is None


@pytest.mark.parametrize(("loop", "lever"), [("keras", "run-eagerly-off"), ("tensorflow", None), ("jax", None)])
def test_only_of_a_loop_that_the_framework_could_compile_by_itself_a_lever_tells(loop, lever):
    notes = {"facts": {"optimizers": loop == "tensorflow"}, "optimizers": []}
    found = finding(RULE, updating(SAMPLED, words=all_words()[loop], notes=notes))

    assert found.fixes[0].lever == lever
