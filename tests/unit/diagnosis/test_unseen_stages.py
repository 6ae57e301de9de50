"""Which stages a trace shows nothing of: unknown is not zero."""

from __future__ import annotations

import pytest

from made_measured_traces import EVERYTHING, made_measured
from slowstep.analyses.events.parts import INPUT_WAIT
from slowstep.diagnosis.unseen_stages import unseen_stages

ASKED = {"loader": [{"step": 0, "name": "enumerate(DataLoader)", "end_ms": 1.0}]}


@pytest.mark.parametrize(
    ("given", "unseen"),
    [
        ({}, {"read", "preprocess"}),
        ({"tables": ASKED}, {"read"}),
        ({"tables": {"loader": [{"step": 0, "name": "enumerate(DataLoader)"}]}}, {"read", "preprocess"}),
        ({"ledger": {INPUT_WAIT: 9.0}}, {"read"}),
        ({"tables": ASKED, "recorded": EVERYTHING - {"annotations", "python"}}, {"read", "output", "store"}),
        ({"tables": ASKED, "has_device": False, "facts": {"vendor": "nvidia"}}, {"read", "h2d", "d2h", "gradient_sharing"}),
        ({"tables": ASKED, "has_device": False}, {"read"}),
    ],
    ids=["no request", "requests", "of no length", "charged", "no names", "device not traced", "no device"],
)
def test_what_the_trace_could_not_show_is_unknown(given, unseen):
    assert unseen_stages(made_measured(**given)) == unseen
