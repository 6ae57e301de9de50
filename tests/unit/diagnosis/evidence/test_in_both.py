"""One function that runs in the steps' bodies and beside them is one finding, with all that it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_events import Events, at
from made_measurements import changed
from made_parts import function_part
from made_recordings import LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules import beside_the_model, slow_callback
from slowstep.parts import BODY, Part, PartKind
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


def _finding(m: Measurements) -> Any:
    judged = slow_callback.judge(m)
    assert isinstance(judged, Judged)
    return judged.finding


@pytest.mark.parametrize(
    ("batches", "before_ms", "after_ms", "where"),
    [(4, 30.0, 0.0, "between batches and before the update"), (4, 30.0, 30.0, "between batches and before the update"),
     (1, 10.0, 10.0, "before the update and after it")],
    ids=["after each backward", "and after the update", "one batch in a step"],
)  # fmt: skip
def test_all_that_one_function_takes_is_one_finding_and_its_gain(tmp_path, batches, before_ms, after_ms, where):
    m = _measured(tmp_path, batches=batches, before_ms=before_ms, after_ms=after_ms)

    finding = _finding(m)
    step_ms = float(m.step_ns.mean()) / MS
    taken_ms = batches * before_ms + after_ms
    assert finding.share == pytest.approx(taken_ms / step_ms, rel=0.02)
    assert finding.gain.predicted == pytest.approx(step_ms / (step_ms - taken_ms), rel=0.05)
    assert finding.gain.low < finding.gain.predicted < finding.gain.high
    assert where in finding.title
    assert finding.claims == (PART, BODY)


def test_of_what_it_takes_the_delay_of_both_places_is_known(tmp_path):
    m = _measured(tmp_path, batches=4, before_ms=30.0, after_ms=30.0)
    # Half of the time of the bodies, and nothing after updates, was spent in the queue for a core.
    parts = [*m.ledger.parts, Part("compute", PartKind.CORE_WAIT)]
    halved = [m.ledger.of_parts(part) / (2 if part.stage == "compute" else 1) for part in m.ledger.parts]
    ledger = replace(m.ledger, parts=tuple(parts), ns=np.vstack([*halved, m.ledger.of("compute") / 2]))

    judged = slow_callback.judge(changed(m, ledger=ledger, delay_ns=m.ledger.of("compute") / 2))

    assert isinstance(judged, Judged)
    assert judged.counterfactual is not None
    queued = judged.counterfactual.expected.delay_share * judged.counterfactual.expected.removed_ns.mean() / MS
    assert m.compute.work.beside is not None
    assert queued == pytest.approx(m.compute.work.beside.share * m.ledger.of("compute", PartKind.FORWARD_AND_REST).mean() / 2 / MS)


def test_what_is_seen_of_it_inside_the_steps_is_folded_into_that_finding(tmp_path):
    m = _measured(tmp_path, batches=4, before_ms=30.0, after_ms=0.0)

    found = diagnose(m).findings
    assert [(finding.rule, finding.also) for finding in found] == [("slow-callback", ("beside-the-model",))]


def test_a_function_of_timed_bodies_has_its_share_of_what_lies_between_batches_too(tmp_path):
    m = _measured(tmp_path, batches=4, before_ms=30.0, after_ms=0.0)

    judged = beside_the_model.judge(m)

    assert isinstance(judged, Judged)
    assert judged.finding.share == pytest.approx(120 * MS / float(m.step_ns.mean()), rel=0.02)


def test_what_lies_between_the_batches_of_a_step_is_known(tmp_path):
    several = _measured(tmp_path / "several", batches=4, before_ms=30.0, after_ms=5.0).ledger.between
    one = _measured(tmp_path / "one", batches=1, before_ms=10.0, after_ms=5.0).ledger.between

    assert one is None
    assert several is not None
    assert several.gaps_ns == pytest.approx(3 * 30 * MS)
    assert several.waits_ns == pytest.approx(3 * WAIT_MS * MS)
