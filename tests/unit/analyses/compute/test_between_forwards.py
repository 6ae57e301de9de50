"""Loops without a loader that call the model several times before an update: roll-outs of reinforcement learning."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LOOP, MS, TRAINER_THREAD
from slowstep.analyses.compute.between_forwards import NOTHING, BetweenForwards
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing import format as fmt


def found(folder: Path, *, forwards: int, apart_ms: float) -> BetweenForwards:
    """Of forty steps: forwards of 2 ms that lie apart, then a backward and an update."""
    events = Events(folder)
    now = 0.0
    for _ in range(45):
        for _ in range(forwards):
            events.forward(now, now + 2)
            now += 2 + apart_ms
        events.backward(now, now + 5)
        events.update(now + 5, now + 6)
        now += 6.1
    return between(events)


def between(events: Events) -> BetweenForwards:
    return measure_recording(events.timeline()).compute.between_forwards


def test_time_between_the_forwards_of_a_roll_out_is_not_known(tmp_path):
    # Of 36.1 ms, 16 lie between five forwards.
    assert found(tmp_path, forwards=5, apart_ms=4).unknown_share == pytest.approx(16 / 36.1, rel=0.02)


AUTOGRAD = "/usr/lib/python3.11/site-packages/torch/autograd/__init__.py"
GRAD = (AUTOGRAD, "grad", 434, 503)
ENGINE = ("/usr/lib/python3.11/site-packages/torch/autograd/graph.py", "_engine_run_backward", 800, 820)


def inner_loop(folder: Path, *, grad: float, timed_ms: float) -> BetweenForwards:
    """Forwards of 2 ms, thrice a step with 4 ms behind them: `grad` of the stacks there, and by timed calls so much, differentiates."""
    events = Events(folder)
    differentiates, other = events.trainer.stack([LOOP, GRAD, ENGINE]), events.trainer.stack([LOOP])
    now = 0.0
    for k in range(45):
        for inner in range(3):
            events.forward(now, now + 2)
            stack = differentiates if (3 * k + inner) % 10 < round(10 * grad) else other
            events.trainer.event(fmt.STACK, at(now + 4), at(now + 4), stack, 20e6, 0, thread=TRAINER_THREAD)
            now += 6
        events.forward(now, now + 2)
        events.backward(now + 2, now + 7)
        events.update(now + 7, now + 8)
        now += 8.1
    # Timed on a machine that was half as fast.
    rows = [
        {"file": AUTOGRAD, "function": name, "line": 1, "calls": 9, "own_ns": 0, "callees": [], "total_ns": round(2 * 3 * ms * MS)}
        for name, ms in (("grad", timed_ms), ("backward", 5.0))
    ]
    events.trainer.lines.append({"kind": "calls", "of": "body", "stretches": 3, "wall_ns": 90 * MS, "slowdown": 1.0, "functions": rows})
    return between(events)


@pytest.mark.parametrize(
    ("grad", "timed_ms", "unknown"), [(0.9, 11, 0.05), (0.5, 11, 0.23), (1.0, 6, 0.23), (1.0, 0, 0.46), (0.0, 11, 0.46)]
)
def test_what_differentiates_between_forwards_is_told_from_what_nothing_tells_of(tmp_path, grad, timed_ms, unknown):
    """Stacks may stand for Python code that ran just before, and calls are timed in other places, too: the lesser of the two counts."""
    share = inner_loop(tmp_path, grad=grad, timed_ms=timed_ms)

    assert share.unknown_share == pytest.approx(unknown, abs=0.02)
    assert share.gradients_share == pytest.approx(0.46 - unknown, abs=0.02)


@pytest.mark.parametrize("stage", ["compute", "preprocess"])
def test_what_the_script_names_between_forwards_is_known(tmp_path, stage):
    events = Events(tmp_path)
    now = 0.0
    for _ in range(45):
        for _ in range(5):
            events.forward(now, now + 2)
            events.span(now + 2.1, now + 5.9, "inner loop", stage)
            now += 6
        events.backward(now, now + 5)
        events.update(now + 5, now + 6)
        now += 6.1

    m = measure_recording(events.timeline())

    assert m.compute.between_forwards.unknown_share < 0.05
    assert m.ledger.share(stage) > 0.4


def test_forwards_that_follow_each_other_at_once_are(tmp_path):
    assert found(tmp_path, forwards=5, apart_ms=0.1).unknown_share < 0.05


def test_the_loss_and_the_turn_of_another_network_lie_between_no_forwards(tmp_path):
    events = Events(tmp_path)
    now = 0.0
    for _ in range(45):
        for turn in range(2):
            for _ in range(2):
                events.forward(now, now + 2, module=turn)
                now += 2.1
            events.backward(now + 4, now + 9)
            events.update(now + 9, now + 10, optimizer=turn)
            now += 10

    assert between(events).unknown_share < 0.05


def test_what_lies_between_the_calls_of_a_closure_is_the_optimizers(tmp_path):
    events = Events(tmp_path)
    now = 0.0
    for _ in range(45):
        begun = now
        for _ in range(5):
            events.forward(now, now + 2)
            events.backward(now + 2, now + 5)
            now += 9
        events.update(begun - 0.05, now)
        now += 0.1

    assert between(events) == NOTHING


def test_what_follows_a_single_forward_is(tmp_path):
    assert found(tmp_path, forwards=1, apart_ms=4) == NOTHING
