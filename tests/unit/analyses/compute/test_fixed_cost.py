from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events
from made_recordings import MS, Training, make_recording
from slowstep.analyses.compute.fixed_cost import CALL, ELEMENT, OPERATION, FixedCost, Passes, find_fixed_cost
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE


def _cost(folder: Path, **changes: Any) -> FixedCost:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**{"workers": 2, **changes})))).compute.fixed_cost


def test_smaller_batches_tell_the_fixed_cost_by_a_line(tmp_path):
    cost = _cost(tmp_path, fixed_ms=6, per_sample_ms=1, batch_size=8, last_batch=3, epoch_steps=20)

    # 6 ms of forward and backward, 1 of the optimizer, 0.5 to receive a batch.
    assert cost.value_ns == pytest.approx(7.5 * MS, rel=0.01)
    assert cost.low_ns <= cost.value_ns <= (cost.high_ns or 0)
    assert cost.likely_ns == cost.value_ns
    assert "smaller batches" in cost.source


def test_a_cost_that_depends_on_the_samples_alone_has_no_fixed_part(tmp_path):
    cost = _cost(tmp_path, fixed_ms=0, optimizer_ms=0.001, receive_ms=0.001, batch_size=8, last_batch=4, epoch_steps=20)

    assert cost.value_ns == pytest.approx(0, abs=0.1 * MS)


@pytest.mark.parametrize(("last", "epoch"), [(15, 20), (4, 60)], ids=["hardly smaller", "seen too rarely"])
def test_without_enough_smaller_batches_there_are_bounds_only(tmp_path, last, epoch):
    cost = _cost(tmp_path, last_batch=last, epoch_steps=epoch)

    assert cost.value_ns is None
    assert cost.low_ns == pytest.approx(1 * MS)
    assert cost.high_ns is not None
    # What its operations usually cost lies between.
    assert cost.likely_ns is not None
    assert cost.low_ns < cost.likely_ns < cost.high_ns


def test_without_the_number_of_operations_there_is_no_upper_bound(tmp_path):
    cost = _cost(tmp_path, nodes=None)

    assert (cost.high_ns, cost.likely_ns) == (None, None)


def test_the_upper_bound_is_never_more_than_the_step(tmp_path):
    cost = _cost(tmp_path, nodes=100_000)

    assert cost.high_ns == cost.step_ns


@pytest.mark.parametrize(("share", "calls", "more_ms"), [(0.9, 1e9, 0.9 * 18 - 0.1 * 18 / 1.5), (0.9, 1000, 3), (0.9, 0, 0), (0.4, 1e9, 0)])
def test_python_around_operations_may_be_fixed(tmp_path, share, calls, more_ms):
    """Of 18 ms a backward of 1.8 tells of layers of 1.2 usually; a call takes 3 us at most."""
    training = Training(workers=2, fixed_ms=2, per_sample_ms=1, batch_size=16, forward_share=share)
    m = measure_recording(SOURCE.read(make_recording(tmp_path, training)))

    plain, called = (find_fixed_cost(m.trainer, m.steps, m.ledger, Passes(calls=each), busy=False) for each in (0, calls))

    assert called.high_ns - plain.high_ns == pytest.approx(more_ms * MS, rel=0.05, abs=0.01 * MS)


TRACED = {"kind": "operations", "framework": "tensorflow", "function": 1, "fewest": 200, "most": 200, "elements": 1000}
FACTS = {"kind": "facts", "framework": "tensorflow", "optimizers": False}


def _cost_of_calls(folder: Path, *notes: dict[str, Any], busy: bool = False, **facts: Any) -> FixedCost:
    """Steps of 20 ms, of which the calls that train take 18."""
    events = Events(folder)
    events.trainer.lines += [{**FACTS, **facts}, *notes]
    events.loader()
    for k in range(60):
        events.wait(20 * k, 20 * k + 1, k)
        events.update(20 * k + 1, 20 * k + 19)
    m = measure_recording(events.timeline())
    return find_fixed_cost(m.trainer, m.steps, m.ledger, Passes(), busy=busy)


def test_on_a_busy_machine_operations_bound_nothing(tmp_path):
    cost = _cost_of_calls(tmp_path, TRACED, busy=True)

    assert (cost.low_ns, cost.high_ns) == (0, None)


def test_of_calls_of_a_graph_the_fixed_cost_is_bounded_by_its_operations(tmp_path):
    cost = _cost_of_calls(tmp_path, TRACED)

    around = cost.step_ns - 18 * MS
    assert cost.value_ns is None
    assert cost.low_ns == CALL.low + 200 * OPERATION.low
    assert cost.likely_ns == around + CALL.value + 200 * OPERATION.value + 1000 * ELEMENT.value
    assert cost.high_ns == around + CALL.high + 200 * OPERATION.high + 1000 * ELEMENT.high
    assert cost.high_ns < 0.5 * cost.step_ns


def test_bounds_of_a_call_hold_for_all_of_its_traces_and_are_no_more_than_the_step(tmp_path):
    cost = _cost_of_calls(tmp_path, TRACED, {**TRACED, "fewest": 100, "most": 100_000})

    assert cost.low_ns == CALL.low + 100 * OPERATION.low
    assert cost.likely_ns == cost.high_ns == cost.step_ns


def test_a_call_of_so_many_operations_is_all_fixed_cost(tmp_path):
    cost = _cost_of_calls(tmp_path, {**TRACED, "fewest": 100_000, "most": 100_000})

    assert cost.low_ns == cost.likely_ns == cost.high_ns == cost.step_ns


UNTOLD = {
    "a loop within": ({**TRACED, "most": None}, {}),
    "open shapes": ({**TRACED, "elements": None}, {}),
    "another framework": ({**TRACED, "framework": "other"}, {}),
    "computed by another": (TRACED, {"computes_with": "jax"}),
    "optimizers": (TRACED, {"optimizers": True}),
}


@pytest.mark.parametrize(("note", "facts"), UNTOLD.values(), ids=UNTOLD)
def test_where_the_operations_of_a_call_are_not_known_there_is_no_upper_bound(tmp_path, note, facts):
    assert _cost_of_calls(tmp_path, note, **facts).high_ns is None


@pytest.mark.parametrize("fact", ["waits_inside", "asynchronous"])
def test_calls_that_are_not_measured_apart_from_waits_are_bounded_above_alone(tmp_path, fact):
    (apart, together) = (_cost_of_calls(tmp_path / name, TRACED, **{fact: name == "together"}) for name in ("apart", "together"))

    assert (apart.low_ns > 0, together.low_ns) == (True, 0)
    assert together.high_ns == apart.high_ns


def test_of_several_functions_that_train_nobody_tells_which_a_step_is_a_call_of(tmp_path):
    cost = _cost_of_calls(tmp_path, TRACED, {**TRACED, "function": 2})

    assert (cost.low_ns, cost.high_ns) == (0, None)


def test_what_another_framework_computes_is_its_operations(tmp_path):
    assert _cost_of_calls(tmp_path, TRACED, framework="keras", computes_with="tensorflow").high_ns is not None


def test_of_an_optimizer_that_calls_a_closure_nothing_is_known_to_be_fixed(tmp_path):
    cost = _cost(tmp_path, nested=True, forward_share=0.8)

    assert cost.low_ns == 0


def test_batches_sized_by_the_length_of_their_samples_tell_nothing_of_the_fixed_cost(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(60):
        events.wait(20 * k, 20 * k + 1, k, samples=[32, 16, 8, 16, 16][k % 5])
        events.backward(20 * k + 5, 20 * k + 17)
        events.update(20 * k + 18, 20 * k + 20)

    cost = measure_recording(events.timeline()).compute.fixed_cost

    assert cost.value_ns is None
    assert cost.varied == (8, 32)
    assert cost.low_ns == pytest.approx(2 * MS)


@pytest.mark.parametrize("sizes", [(8, 16), (16, 8)], ids=["grows", "shrinks"])
def test_the_steps_before_and_after_a_change_of_the_batch_size_are_not_laid_a_line_through(tmp_path, sizes):
    events = Events(tmp_path)
    events.loader()
    for k in range(121):
        size = sizes[0] if k < (40 if sizes[0] == 8 else 81) else sizes[1]
        events.wait(20 * k, 20 * k + 1, k, samples=size)
        events.backward(20 * k + 5, 20 * k + 17)
        events.update(20 * k + 18, 20 * k + 20)

    cost = measure_recording(events.timeline()).compute.fixed_cost

    assert (cost.value_ns, cost.smaller, cost.varied) == (None, 0, (8, 16))
    assert cost.samples == 16


def test_a_machine_that_slows_down_during_the_run_leaves_the_fixed_share(tmp_path):
    events = Events(tmp_path)
    events.loader()
    begin = 0.0
    for k in range(120):
        # Half of a step of 16 is fixed; the second half of the run takes twice as long. Epochs end at 20 steps, except in the slow half.
        small = k % 20 == 19 if k < 100 else k % 5 == 4
        speed = 1 if k < 60 else 2
        length = (15.0 if small else 20.0) * speed
        events.wait(begin, begin + 0.1, k, samples=8 if small else 16)
        events.backward(begin + 0.1, begin + 0.75 * length)
        events.update(begin + length - 2.0 * speed, begin + length)
        begin += length

    cost = measure_recording(events.timeline()).compute.fixed_cost

    assert cost.value_ns is not None
    assert cost.value_ns / cost.step_ns == pytest.approx(0.5, abs=0.03)
    assert cost.low_ns / cost.step_ns > 0.45
    assert (cost.high_ns or 0) / cost.step_ns < 0.55


def test_the_optimizers_time_is_fixed_however_it_varies_from_step_to_step(tmp_path):
    events = Events(tmp_path)
    events.loader()
    begin = 0.0
    for k in range(160):
        # Of a step of 16 samples 8 ms grow with them, 2 are forward's and backward's own, and the update takes 10 ms, more or less.
        small = k % 20 == 19
        update = 10.0 + (k % 7 - 3) * 2.0
        length = (6.0 if small else 10.0) + update
        events.wait(begin, begin + 0.1, k, samples=8 if small else 16)
        events.backward(begin + 0.1, begin + length - update)
        events.update(begin + length - update, begin + length)
        begin += length

    cost = measure_recording(events.timeline()).compute.fixed_cost

    assert cost.value_ns == pytest.approx(12 * MS, rel=0.02)
    assert cost.low_ns == pytest.approx(12 * MS, rel=0.02)
    assert cost.high_ns == pytest.approx(12 * MS, rel=0.02)
