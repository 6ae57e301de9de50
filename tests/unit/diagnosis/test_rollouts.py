"""Loops without a loader that call the model several times before an update: roll-outs of reinforcement learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_events import Events
from slowstep.workflow.diagnose import diagnose_recording


def verdict(folder: Path, *, forwards: int, apart_ms: float) -> dict[str, Any]:
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
    return dict(diagnose_recording(events.close())["verdict"])


def test_time_between_the_forwards_of_a_roll_out_is_not_called_the_models_own_work(tmp_path):
    found = verdict(tmp_path, forwards=5, apart_ms=4)

    assert found["state"] == "undetermined"
    assert "between a step's forwards" in found["summary"]


def test_forwards_that_follow_each_other_at_once_are(tmp_path):
    assert "between" not in verdict(tmp_path, forwards=5, apart_ms=0.1)["summary"]


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

    assert "between a step's forwards" not in diagnose_recording(events.close())["verdict"]["summary"]


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

    assert "between" not in diagnose_recording(events.close())["verdict"]["summary"]


def test_what_follows_a_single_forward_is(tmp_path):
    assert "between" not in verdict(tmp_path, forwards=1, apart_ms=4)["summary"]
