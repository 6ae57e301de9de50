"""What a finding would gain if all that it claims cost nothing, and what the training would reach without its input and output."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judged import finding
from made_measurements import measurements
from slowstep.diagnosis.gain import gain_without
from slowstep.diagnosis.law import rules, sort_answers
from slowstep.diagnosis.rule import Judged
from slowstep.findings import Gain
from slowstep.parts import BODY, CodePlace, Part, PartKind
from slowstep.stages import STAGES, UNATTRIBUTED

RULE = rules()["slow-callback"]
CALLBACK = Part("output", PartKind.FUNCTION, "plot", CodePlace("train.py", 40))
WRITING = Part("store", PartKind.FUNCTION, "write", CodePlace("train.py", 50))


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({}, 2.0),
        ({"share": 0.25}, None),
        ({"stage": "compute"}, 2.0),
        ({"stage": "compute", "names_cause": False}, None),
        ({"gain": Gain(predicted=None, low=None, high=None, assumes="", headroom=1.8)}, 1.8),
        ({"share": 1.0}, None),
    ],
    ids=["half of the time", "no more than the gain", "one line's", "the model's own", "unknown", "all of it"],
)
def test_a_finding_says_what_it_would_gain_if_it_cost_nothing(change, limit):
    found = finding("slow-callback", measurements(ledger={CALLBACK: 20.0, BODY: 20.0}, timed={CALLBACK: 5}))
    gain = Gain(predicted=1.3, low=1.2, high=1.4, assumes="")
    made = replace(found, **{"share": 0.5, "gain": gain, "names_cause": True, **change})

    (judged,) = sort_answers([(RULE, Judged(finding=made, counterfactual=None))]).leading

    assert judged.finding.gain.headroom == limit


def test_what_is_reached_without_input_and_output_is_what_the_other_stages_leave():
    m = measurements(ledger={CALLBACK: 10.0, WRITING: 5.0})
    left = m.ledger.share("compute") + m.ledger.share(UNATTRIBUTED)

    gain, low, high = gain_without(m, "read", "preprocess", "output", "store") or (0.0, 0.0, 0.0)

    assert gain == pytest.approx(1 / left)
    assert low <= gain <= high


def test_where_nothing_is_left_no_reach_is_known():
    assert gain_without(measurements(), *STAGES, UNATTRIBUTED) is None
