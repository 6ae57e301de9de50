"""Which stages a trace shows nothing of: unknown is not zero."""

from __future__ import annotations

import pytest

from made_measured_traces import EVERYTHING, OF_TRACES, made_measured
from made_measurements import OF_RECORDINGS, measurements
from made_topics import with_topics
from slowstep.analyses.events.parts import INPUT_WAIT
from slowstep.diagnosis.unseen_stages import unseen_stages
from slowstep.timeline.coverage import TRACED, UNSEEN, CoverageLevel, KindCoverage

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


def test_reading_is_told_from_preprocessing_by_a_source_that_sees_how_batches_are_made():
    m = made_measured(tables=ASKED)

    assert unseen_stages(with_topics(m, coverage=OF_TRACES | {"batches": TRACED})) == set()


@pytest.mark.parametrize(
    ("device", "coverage", "unseen"),
    [
        ("cuda", {}, {"h2d", "d2h"}),
        ("cuda", {"device": TRACED}, set()),
        ("cuda", {"device": KindCoverage(CoverageLevel.SAMPLED)}, {"h2d", "d2h"}),
        ("cpu", {}, set()),
        ("cpu", {"batches": UNSEEN}, {"read"}),
    ],
    ids=["device not seen", "device seen", "device asked", "no device", "batches not seen"],
)
def test_what_the_source_of_a_recording_states_that_it_cannot_see_is_unknown(device, coverage, unseen):
    assert unseen_stages(measurements(compute={"device": device}, coverage=OF_RECORDINGS | coverage)) == unseen
