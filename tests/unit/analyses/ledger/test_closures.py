"""Code of the script's that runs inside the optimizer's call."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import PartKind
from slowstep.record.writing import format as fmt

STEP = ("/usr/lib/python3.11/site-packages/torch/optim/lbfgs.py", "LBFGS.step", 300, 330)
WRAPPER = ("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "wrapper", 500, 510)
CLOSURE, PREVIEW = (SCRIPT, "closure", 50, 55), (SCRIPT, "save_preview", 20, 22)


def _measured(folder: Path, *, between: float, after: float, steps: int = 60) -> Measurements:
    """Steps with two evaluations of a closure; which part of the stacks after each stands in a function that it calls."""
    events = Events(folder)
    optimizer = events.trainer.stack([LOOP, WRAPPER, STEP])
    closure = events.trainer.stack([LOOP, WRAPPER, STEP, CLOSURE, PREVIEW])
    for k in range(steps):
        events.update(20 * k, 20 * k + 20)
        events.backward(20 * k + 2, 20 * k + 4)
        events.backward(20 * k + 10, 20 * k + 12)
        for share, when in ((between, 7), (after, 16)):
            stack = closure if k % 10 < round(10 * share) else optimizer
            events.trainer.event(fmt.STACK, at(20 * k + when), at(20 * k + when), stack, 20e6, 0, thread=TRAINER_THREAD)
    return measure_recording(events.timeline())


def _ms_per_step(m: Measurements, part: PartKind) -> float:
    return m.ledger.total("compute", part) / m.steps.count / 1e6


@pytest.mark.parametrize(("between", "after"), [(0.0, 0.0), (0.5, 1.0), (1.0, 0.2)])
def test_what_is_beside_a_closures_backwards_is_divided_by_stacks(tmp_path, between, after):
    m = _measured(tmp_path, between=between, after=after)

    assert _ms_per_step(m, PartKind.OPTIMIZER) == pytest.approx(6 * (1 - between) + 8 * (1 - after), abs=0.5)
    assert _ms_per_step(m, PartKind.FORWARD_AND_REST) == pytest.approx(2 + 6 * between + 8 * after, abs=0.5)
    assert _ms_per_step(m, PartKind.BACKWARD) == pytest.approx(4)


def test_with_few_stacks_only_what_comes_after_the_last_backward_is_the_optimizers(tmp_path):
    m = _measured(tmp_path, between=1, after=1, steps=20)

    assert _ms_per_step(m, PartKind.OPTIMIZER) == pytest.approx(8)


def test_no_time_of_an_optimizer_that_calls_a_closure_is_known_to_be_fixed(tmp_path):
    m = _measured(tmp_path, between=0, after=0)

    assert m.ledger.share("compute", PartKind.OPTIMIZER) > 0.5
    assert (m.compute.fixed_cost.low_ns, m.compute.fixed_cost.value_ns) == (0, None)
