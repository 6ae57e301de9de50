"""Steps of several batches, and a function that runs after each of them: between batches, in the bodies, and after the update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from made_parts import function_part
from made_recordings import LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.record.writing import format as fmt

STEPS = 80
PART = function_part("output", "log_gradients", "train.py", 18)
FORWARD_MS, BACKWARD_MS, UPDATE_MS, WAIT_MS = 4.0, 6.0, 2.0, 1.0
PLACE = {"file": SCRIPT, "function": "log_gradients", "first_line": 18}


def _measured(folder: Path, *, batches: int, before_ms: float, after_ms: float) -> Measurements:
    """Steps of so many batches; the function runs after the backward of each, and after the update. Calls were timed in three bodies."""
    events, now = Events(folder), 0.0
    events.loader()
    for step in range(STEPS):
        first = now + WAIT_MS
        for batch in range(batches):
            events.wait(now, now + WAIT_MS, step * batches + batch)
            now += WAIT_MS + FORWARD_MS + BACKWARD_MS
            events.backward(now - BACKWARD_MS, now)
            now = _logs(events, now, before_ms)
        events.update(now, now + UPDATE_MS)
        now += UPDATE_MS
        body_ms = now - first
        now = _logs(events, now, after_ms) + 0.1
    events.trainer.lines += _notes(body_ms, batches, before_ms)
    return measure_recording(events.timeline())


def _logs(events: Events, now: float, length_ms: float) -> float:
    """The function runs, and a stack is taken in it; returns when it has ended."""
    if length_ms:
        file, function, first = PLACE.values()
        stack = events.trainer.stack([LOOP, (file, function, first, 20)])
        middle = at(now + length_ms / 2)
        events.trainer.event(fmt.STACK, middle, middle, stack, 20 * MS, 0, thread=TRAINER_THREAD)
    return now + length_ms


def _notes(body_ms: float, batches: int, before_ms: float) -> list[dict[str, Any]]:
    def function(place: dict[str, Any], total_ms: float, calls: int) -> dict[str, Any]:
        ns = int(3 * total_ms * MS)
        return {"file": place["file"], "function": place["function"], "line": place["first_line"], "calls": 3 * calls,
                "total_ns": ns, "own_ns": ns, "callees": []}  # fmt: skip

    backward = {"file": "/opt/slowstep/record/hooks/torch_backward.py", "function": "_timed.<locals>.backward", "first_line": 60}
    optimizer = {"file": "/usr/lib/site-packages/torch/optim/optimizer.py", "function": "Optimizer.<locals>.wrapper", "first_line": 1}
    rows = [
        function(PLACE, batches * before_ms, batches),
        function(backward, batches * BACKWARD_MS, batches),
        function(optimizer, UPDATE_MS, 1),
    ]
    counts = {"calls": batches, "hooks": 0, "inside": 0, "gradient": batches, "nothing": 0, "nodes": 0, "of_nodes": 40}
    line = {**PLACE, "line": 20, "count": 36, "ns": 36 * 250_000}
    return [
        {"kind": "calls", "of": "body", "stretches": 3, "wall_ns": int(3 * body_ms * MS), "slowdown": 1.0, "functions": rows},
        {"kind": "lines", "of": "body", "complete": True, "lines": [line], "functions": [{**PLACE, **counts}]},
    ]


def test_what_lies_between_the_batches_of_a_step_is_known(tmp_path):
    several = _measured(tmp_path / "several", batches=4, before_ms=30.0, after_ms=5.0).ledger.between
    one = _measured(tmp_path / "one", batches=1, before_ms=10.0, after_ms=5.0).ledger.between

    assert one is None
    assert several is not None
    assert several.gaps_ns == pytest.approx(3 * 30 * MS)
    assert several.waits_ns == pytest.approx(3 * WAIT_MS * MS)


@pytest.mark.parametrize(("batches", "before_ms", "gap_ms"), [(4, 30.0, 95.0), (1, 10.0, 5.0)])
def test_a_function_of_several_batches_is_known_in_their_gaps_and_as_its_share_of_the_timed_bodies(tmp_path, batches, before_ms, gap_ms):
    m = _measured(tmp_path, batches=batches, before_ms=before_ms, after_ms=5.0)

    assert float(m.ledger.of_parts(PART).mean()) == pytest.approx(gap_ms * MS, rel=0.02)
    beside = m.compute.work.outside_model
    assert beside is not None
    # Of bodies from the first batch to the update, without backward and optimizer.
    rest_ms = batches * (FORWARD_MS + before_ms) + (batches - 1) * WAIT_MS
    assert (beside.name, beside.share) == ("log_gradients", pytest.approx(batches * before_ms / rest_ms, rel=0.02))
