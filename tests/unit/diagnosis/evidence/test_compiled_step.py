"""Whether one operation of a step that is compiled as a whole may take most of it."""

from __future__ import annotations

import pytest

from made_measurements import changed, measurements
from slowstep.analyses.measurements import Measurements
from slowstep.calibration import computing
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.compute.compiled_step import is_spread
from slowstep.parts import BODY, UPDATES
from slowstep.timeline.timeline import CallOperations, CallWork

# Elements of which an operation takes nearly half of a step, at what each takes at most.
STEP_NS = float(measurements(workers=None, ledger={UPDATES: 19.0, BODY: 0.5}).step_ns.mean())
COSTS = {"given": computing.FUSED_ELEMENT, "scattered": computing.SCATTERED_ELEMENT, "sorted": computing.SORTED_ELEMENT}
LESS, MORE = ({name: int(share * STEP_NS / cost.bounds[1]) for name, cost in COSTS.items()} for share in (0.45, 0.55))


def _compiled(**work: int) -> Measurements:
    calls = CallOperations(fewest=0, most=100, elements=1000, work=CallWork(**{"products": 1000, "most_products": 100, **LESS, **work}))
    m = measurements(workers=None, ledger={UPDATES: 19.0, BODY: 0.5})
    return changed(m, trainer={"facts": {"framework": "made", "operations": {"made": calls}}})


@pytest.mark.parametrize(
    ("work", "spread"),
    [
        ({}, True),
        ({"most_products": 166}, True),
        ({"most_products": 167}, False),
        *(({name: elements}, False) for name, elements in MORE.items()),
    ],
    ids=["all small", "half of a layer", "a layer", "an operation", "single elements", "sorting"],
)
def test_no_operation_holds_a_step_whose_trace_shows_no_large_one(work, spread):
    assert is_spread(_compiled(**work)) is spread


def test_of_a_trace_that_tells_nothing_nothing_is_known():
    assert not is_spread(measurements(workers=None, ledger={UPDATES: 19.0}))


@pytest.mark.parametrize(("most", "state"), [(100, "healthy"), (500, "undetermined")])
def test_a_compiled_step_is_called_healthy_where_no_operation_may_hold_it(most, state):
    verdict = diagnose(_compiled(most_products=most)).verdict

    assert verdict.state == state
    assert state == "healthy" or (verdict.reason is not None and verdict.reason.code == "compiled-step")
