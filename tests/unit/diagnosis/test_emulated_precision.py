"""Models that compute in 16 bits on processors with and without instructions for these."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding, values
from made_measurements import measurements
from slowstep.analyses.compute.narrow_operations import NarrowOperations
from slowstep.analyses.measurements import Measurements
from slowstep.parts import BACKWARD, BODY

RULE = "emulated-precision"


def narrow(changes: dict[str, Any] | None = None, **of: Any) -> Measurements:
    """Steps of 19.5 ms, of which forward and backward take 18, in float16."""
    known = {"dtype": "float16", "share": 1.0, "is_native": False, "has_bfloat16": False, **of}
    return measurements(narrow=NarrowOperations(**known), **(changes or {}))


def test_what_the_processor_has_to_emulate_is_blamed_by_how_much_longer_it_takes():
    half, brain = finding(RULE, narrow()), finding(RULE, narrow(dtype="bfloat16"))

    assert values(half)["fix saves per step"] == pytest.approx(min(18 * (1 - 1 / 17), 19.5 - 6.5), rel=0.01)
    assert values(brain)["fix saves per step"] == pytest.approx(18 * (1 - 1 / 2.1), rel=0.01)
    assert half.gain.low is not None
    assert half.gain.low < half.gain.predicted
    assert all(fix.changes_numerics for fix in half.fixes)


def test_a_type_that_the_processor_has_is_offered():
    assert [len(finding(RULE, narrow(has_bfloat16=has)).fixes) for has in (False, True)] == [1, 2]


@pytest.mark.parametrize(
    "m",
    [
        measurements(),
        narrow(is_native=True),
        narrow(is_native=None),
        narrow(share=0.2),
        narrow(changes={"device": "cuda:0"}),
        narrow(changes={"ledger": {BODY: 0.1, BACKWARD: 0.1}}, share=0.6),
    ],
    ids=["float32", "with instructions", "of which nothing is known", "a few operations", "on an accelerator", "little of the time"],
)
def test_no_other_is_blamed(m):
    assert answer_of(RULE, m) is None
