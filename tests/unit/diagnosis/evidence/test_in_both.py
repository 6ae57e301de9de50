"""One function that runs in the steps' bodies and beside them is one finding, with all that it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judged import finding, judged
from made_measurements import MS, SCRIPT, changed, measurements, per_step
from made_parts import function_part
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.outside_model import OutsideModel
from slowstep.analyses.steps.between_batches import BetweenBatches
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import BACKWARD, BODY, OPTIMIZER, Part, PartKind

PART = function_part("output", "log_gradients", "train.py", 18)
FORWARD_MS, BACKWARD_MS, UPDATE_MS, WAIT_MS = 4.0, 6.0, 2.0, 1.0


def _made(*, batches: int, before_ms: float, after_ms: float) -> Measurements:
    """Steps of so many batches; the function runs after the backward of each, and after the update. Calls were timed in three bodies.

    After the last backward it is in the body, after the others in a gap between batches.
    """
    between_ms = (batches - 1) * before_ms
    rest_ms = batches * (FORWARD_MS + before_ms) + (batches - 1) * WAIT_MS
    share = batches * before_ms / rest_ms
    beside = OutsideModel(
        name="log_gradients", file=SCRIPT, first_line=18, is_hook=False, calls=batches, bodies=3, share=share, low=0.9 * share, high=share
    )
    ledger = {
        Part("preprocess", PartKind.TRANSPORT): batches * WAIT_MS,
        BODY: batches * FORWARD_MS + before_ms,
        BACKWARD: batches * BACKWARD_MS,
        OPTIMIZER: UPDATE_MS,
        PART: between_ms + after_ms,
    }
    between = BetweenBatches(gaps_ns=per_step(between_ms), waits_ns=per_step((batches - 1) * WAIT_MS))
    m = measurements(ledger=ledger, stacks={PART: 80} if between_ms + after_ms else None, work={"outside_model": beside})
    return changed(m, ledger={"between": between if batches > 1 else None})


@pytest.mark.parametrize(
    ("batches", "before_ms", "after_ms", "longer_ms", "where"),
    [(4, 30.0, 0.0, 1.2, "between batches and before the update"), (4, 30.0, 30.0, 1.2, "between batches and before the update"),
     (1, 10.0, 10.0, 0.66, "before the update and after it")],
    ids=["after each backward", "and after the update", "one batch in a step"],
)  # fmt: skip
def test_all_that_one_function_takes_is_one_finding_and_its_gain(batches, before_ms, after_ms, longer_ms, where):
    m = _made(batches=batches, before_ms=before_ms, after_ms=after_ms)

    found = finding("slow-callback", m)
    step_ms = float(m.step_ns.mean()) / MS
    taken_ms = batches * before_ms + after_ms
    assert found.share == pytest.approx(taken_ms / step_ms, rel=0.02)
    assert found.gain.predicted == pytest.approx(step_ms / (step_ms - taken_ms - longer_ms), rel=0.02)
    assert found.gain.low < found.gain.predicted <= found.gain.high
    assert where in found.title
    assert found.claims == (PART, BODY)


def test_of_what_it_takes_the_delay_of_both_places_is_known():
    m = _made(batches=4, before_ms=30.0, after_ms=30.0)
    # Half of the time of the bodies, and nothing after updates, was spent in the queue for a core.
    parts = [*m.ledger.parts, Part("compute", PartKind.CORE_WAIT)]
    halved = [m.ledger.of_parts(part) / (2 if part.stage == "compute" else 1) for part in m.ledger.parts]
    ledger = replace(m.ledger, parts=tuple(parts), ns=np.vstack([*halved, m.ledger.of("compute") / 2]))

    answer = judged("slow-callback", changed(m, ledger=ledger, delay_ns=m.ledger.of("compute") / 2))

    assert answer.counterfactual is not None
    queued = answer.counterfactual.expected.delay_share * answer.counterfactual.expected.removed_ns.mean() / MS
    assert m.compute.work.outside_model is not None
    assert queued == pytest.approx(m.compute.work.outside_model.share * m.ledger.of_parts(BODY).mean() / 2 / MS)


def test_what_is_seen_of_it_inside_the_steps_is_folded_into_that_finding():
    m = _made(batches=4, before_ms=30.0, after_ms=0.0)

    found = diagnose(m).findings
    assert [(each.rule, each.also) for each in found] == [("slow-callback", ("beside-the-model",))]


def test_a_function_of_timed_bodies_has_its_share_of_what_lies_between_batches_too():
    m = _made(batches=4, before_ms=30.0, after_ms=0.0)

    assert finding("beside-the-model", m).share == pytest.approx(120 * MS / float(m.step_ns.mean()), rel=0.02)
