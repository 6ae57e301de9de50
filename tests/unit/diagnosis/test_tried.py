"""What an experiment changes in a diagnosis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_findings import claiming
from slowstep.diagnosis.law import GAIN_NOT_KNOWN, Diagnosis
from slowstep.diagnosis.tried import Tried, with_tried
from slowstep.findings import MeasuredGain, Verdict
from slowstep.reasons import Wording

NOTHING, NOT_KNOWN = Wording("nothing-found", "nothing worth 10 % was found"), Wording("not-known", "it is not known")
HEALTHY = Verdict(state="healthy", stage="compute", healthy=True, rule=None, reason=NOTHING())
OPEN = replace(HEALTHY, state="undetermined", healthy=None, reason=NOT_KNOWN())
UNTRIED = replace(OPEN, reason=GAIN_NOT_KNOWN(rule="chatty-logging", whole=None, share=0.5, bound=None, remedy="try its fix"))
MEASURED = MeasuredGain(value=1.2, low=1.1, high=1.3)
LOGGING, OTHER = claiming(rule="chatty-logging"), claiming(rule="slow-callback")


def diagnosis(verdict: Verdict) -> Diagnosis:
    return Diagnosis(findings=(LOGGING, OTHER), not_judged=(), verdict=verdict, next=None)


def test_a_gain_is_measured_of_the_finding_whose_fix_was_tried_and_of_no_other() -> None:
    found = with_tried(diagnosis(OPEN), Tried(measured={"chatty-logging": MEASURED}))

    assert [each.gain.measured for each in found.findings] == [MEASURED, None]
    assert found.findings[0].gain == replace(LOGGING.gain, measured=MEASURED)
    assert found.verdict == OPEN


def test_an_experiment_that_showed_nothing_changes_nothing() -> None:
    for verdict in (HEALTHY, OPEN, UNTRIED):
        assert with_tried(diagnosis(verdict), Tried()) == diagnosis(verdict)


@pytest.mark.parametrize(
    ("verdict", "gains", "code"),
    [
        (HEALTHY, (1.10,), "proved-unpredicted"),
        (HEALTHY, (1.09,), "nothing-found"),
        (HEALTHY, (1.05, 1.2), "proved-unpredicted"),
        (OPEN, (1.2,), "not-known"),
    ],
    ids=["as much as a bottleneck", "less", "the largest counts", "open anyway"],
)
def test_what_was_proved_is_said_of_a_training_in_which_no_rule_saw_it(verdict: Verdict, gains: tuple[float, ...], code: str) -> None:
    proved = tuple(zip(gains, ("chatty-logging", "slow-callback"), strict=False))

    found = with_tried(diagnosis(verdict), Tried(proved=proved)).verdict

    assert found.reason is not None
    assert (found.state, found.reason.code) == (verdict.state, code)
    if code == "proved-unpredicted":
        assert found.reason.values["rule"] == max(proved)[1]


def test_a_fix_whose_gain_was_measured_is_not_to_be_tried_again() -> None:
    tried = with_tried(diagnosis(UNTRIED), Tried(measured={"chatty-logging": MEASURED})).verdict
    other = with_tried(diagnosis(UNTRIED), Tried(measured={"slow-callback": MEASURED})).verdict

    assert tried.reason is not None
    assert (tried.state, tried.reason.code, tried.reason.values["value"]) == ("undetermined", "gain-measured", 1.2)
    assert other == UNTRIED
