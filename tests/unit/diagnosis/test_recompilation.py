"""Compiling in the midst of a recording's steps: where it goes on it is blamed, where it was needed once it is not."""

from __future__ import annotations

import numpy as np
import pytest

from judged import answer_of, finding, values
from made_measurements import measurements
from slowstep.analyses.measurements import Measurements
from slowstep.parts import Part, PartKind

NAME = "recompilation"
RATE = Part("compute", PartKind.COMPILATION, "rate")
DYNAMO = Part("compute", PartKind.COMPILING)
STEPS = 200
STEP_MS = float(measurements().step_ns.mean()) / 1e6


def compiled(steps: range, share: float = 0.1, part: Part = RATE) -> Measurements:
    """A training that compiles in some of 200 steps, for so large a share of all the time."""
    ms = np.zeros(STEPS)
    ms[list(steps)] = share / (1 - share) * STEP_MS * STEPS / len(steps)
    return measurements(steps=STEPS, ledger={part: ms})


@pytest.mark.parametrize("part", [RATE, DYNAMO])
def test_compiling_in_every_tenth_step_is_blamed(part):
    found = finding(NAME, compiled(range(0, STEPS, 10), part=part))

    assert (found.stage, found.claims) == ("compute", (part,))
    assert found.share == pytest.approx(0.1)
    assert found.gain.predicted == pytest.approx(1 / 0.9, abs=0.01)
    assert values(found)["steps in which something is compiled"] == 20
    assert found.names_cause == (part is RATE)


@pytest.mark.parametrize(
    "steps",
    [range(0, 90, 3), range(100, 102), range(60, 61)],
    ids=["each shape once, in the first half", "a last batch and a validation", "one function"],
)
def test_what_is_compiled_once_is_not_blamed(steps):
    assert answer_of(NAME, compiled(steps)) is None


@pytest.mark.parametrize(("share", "is_blamed"), [(0.028, False), (0.032, True)])
def test_it_is_blamed_from_what_a_finding_may_claim_on(share, is_blamed):
    assert (answer_of(NAME, compiled(range(0, STEPS, 10), share)) is not None) == is_blamed


def test_where_it_grows_rarer_the_gain_may_be_as_small_as_in_the_later_half():
    ms = np.zeros(STEPS)
    ms[:100:5], ms[100::20] = 4 * STEP_MS, 4 * STEP_MS
    even, rarer = finding(NAME, compiled(range(0, STEPS, 10), 1 / 3)), finding(NAME, measurements(steps=STEPS, ledger={RATE: ms}))

    # 0.44 of the first half's time, 0.17 of the second's.
    assert rarer.gain.predicted == pytest.approx(even.gain.predicted, abs=0.01)
    assert (rarer.gain.low or 0.0) < (even.gain.low or 0.0) - 0.1
