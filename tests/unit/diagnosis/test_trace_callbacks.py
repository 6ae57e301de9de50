"""A named range beside the model, in a trace without a device."""

from __future__ import annotations

import pytest

from made_measured_traces import made_measured
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules.slow_callback import judge_trace

SAVING = ("output", "save_images")


def test_a_range_that_takes_its_time_is_named_and_its_gain_is_the_rest() -> None:
    answer = judge_trace(made_measured(has_device=False, ledger={SAVING: 25.0}, rest=("compute", "forward")))

    assert isinstance(answer, Judged)
    assert answer.finding.claims == ("save_images",)
    gain = answer.finding.gain
    assert gain.predicted == pytest.approx(100 / 75)
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < 100 / 75 < gain.high


def test_a_gain_that_differs_from_step_to_step_has_a_wide_interval() -> None:
    uneven = judge_trace(made_measured(steps=4, has_device=False, ledger={SAVING: [0.0, 0.0, 0.0, 60.0]}, rest=("compute", "forward")))

    assert isinstance(uneven, Judged)
    assert uneven.finding.gain.low is not None
    assert uneven.finding.gain.low < 1.0


@pytest.mark.parametrize(
    ("ledger", "has_device"),
    [({SAVING: 2.0}, False), ({("output", "validation"): 40.0}, False), ({}, False), ({SAVING: 25.0}, True)],
    ids=["too short", "validation", "nothing", "with a device"],
)
def test_what_is_short_or_said_by_others_is_not_blamed(ledger, has_device) -> None:
    assert judge_trace(made_measured(has_device=has_device, ledger=ledger, rest=("compute", "forward"))) is None
