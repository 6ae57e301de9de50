"""How far a time may be off that a few stacks tell: all of them in one function do not make it certain."""

from __future__ import annotations

import pytest

from judged import finding
from made_measurements import measurements
from made_parts import function_part
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.spread import EXACT, even, stack_spread

CALLBACK = function_part("output", "save_mask_images", "train.py", 80)


def _callback(stacks):
    m = measurements(ledger={CALLBACK: 2.4}, stacks={CALLBACK: stacks})
    found = finding("slow-callback", m)
    return diagnose(m).verdict.state, found, next(row for row in found.evidence if row.name == "stack samples in it")


def test_five_of_five_stacks_make_no_bottleneck():
    state, found, stacks = _callback(5)

    assert (stacks.value, stacks.where) == (5, "of 5 after updates")
    assert found.gain.predicted >= 1.10
    assert found.gain.low < 1.03
    assert state == "undetermined"


def test_as_many_of_many_stacks_do():
    state, found, _ = _callback(60)

    assert found.gain.low > 1.03
    assert state == "bottleneck"


def test_a_spread_that_is_known_to_be_wider_stays_so():
    assert stack_spread(50, 50).or_even(0.15) == even(0.15)
    assert stack_spread(1, 2).or_even(0.15).low == pytest.approx(stack_spread(1, 2).low)


def test_stacks_say_nothing_of_what_none_was_taken_in():
    assert stack_spread(0, 12) == EXACT
    assert stack_spread(0, 0) == EXACT
