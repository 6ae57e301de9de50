"""How far a time may be off that a few stacks tell: all of them in one function do not make it certain."""

from __future__ import annotations

import pytest

from judged_recordings import report_of
from slowstep.diagnosis.spread import EXACT, even, stack_spread

# After each update: the period of the stacks decides how many of them are seen.
AFTER = {"steps": 300, "after_ms": 2.4}


def _callback(folder, period_ms):
    report = report_of(folder, {**AFTER, "stack_period_ms": period_ms})
    (finding,) = (each for each in report["findings"] if each["rule"] == "slow-callback")
    (stacks,) = (each for each in finding["evidence"] if each["name"] == "stack samples in it")
    return report["verdict"]["state"], finding, stacks


def test_five_of_five_stacks_make_no_bottleneck(tmp_path):
    state, finding, stacks = _callback(tmp_path, 140.0)

    assert stacks["value"] <= 5
    assert stacks["where"] == f"of {stacks['value']} after updates"
    assert finding["gain"]["predicted"] >= 1.10
    assert finding["gain"]["low"] < 1.03
    assert state == "undetermined"


def test_as_many_of_many_stacks_do(tmp_path):
    state, finding, stacks = _callback(tmp_path, 5.0)

    assert stacks["value"] > 50
    assert finding["gain"]["low"] > 1.03
    assert state == "bottleneck"


def test_a_spread_that_is_known_to_be_wider_stays_so():
    assert stack_spread(50, 50).or_even(0.15) == even(0.15)
    assert stack_spread(1, 2).or_even(0.15).low == pytest.approx(stack_spread(1, 2).low)


def test_stacks_say_nothing_of_what_none_was_taken_in():
    assert stack_spread(0, 12) == EXACT
    assert stack_spread(0, 0) == EXACT
