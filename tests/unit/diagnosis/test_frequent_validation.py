"""How much of the time validations may take, by what is known of passes over the training data."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding
from made_measurements import every, measurements, per_step
from slowstep.analyses.over_time.event_name import EventName
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.analyses.over_time.validations import Validations
from slowstep.diagnosis.rule import Judged
from slowstep.findings import NotJudged
from slowstep.parts import VALIDATION

NAME = "frequent-validation"
ONCE_A_PASS, FREQUENT = Validations(among_steps=False, samples_ratio=1.3), Validations(among_steps=True, samples_ratio=2.0)
UNKNOWN = [
    None,
    Validations(among_steps=None, samples_ratio=1.3),
    Validations(among_steps=True, samples_ratio=0.9),
    Validations(among_steps=True, samples_ratio=None),
]
# Of steps of 19.5 ms, every 25 of them.
A_QUARTER_MS, HALF_MS = 180.0, 500.0


def validates(ms: float, known: Validations | None, *, workers: int | None = None, **restarts: int) -> dict[str, Any]:
    """A training that validates every 25 steps, as if no loader fed it where no workers are said."""
    event = OccasionalEvent(name=EventName.VALIDATION, known=True, part=VALIDATION, every_steps=25.0, count=8, ns=per_step(every(25, ms)))
    return {
        "workers": workers,
        "ledger": {VALIDATION: every(25, ms)},
        "over_time": {"events": (event,), "validations": known, "restarts": restarts},
    }


def test_once_in_each_pass_a_quarter_of_the_time_is_no_problem_in_a_loop_without_a_loader():
    assert answer_of(NAME, measurements(**validates(A_QUARTER_MS, ONCE_A_PASS))) is None


def test_more_samples_than_were_trained_on_in_the_loop_of_the_steps_are_too_often():
    rows = {row.name: row for row in finding(NAME, measurements(**validates(A_QUARTER_MS, FREQUENT))).evidence}

    assert rows["passes over the training data"].value is None
    assert (rows["samples validated"].value, rows["samples validated"].threshold) == (2.0, 1.0)


@pytest.mark.parametrize("known", UNKNOWN, ids=str)
def test_where_passes_are_not_known_a_quarter_is_not_judged_and_half_is_too_much(known):
    quarter, half = (answer_of(NAME, measurements(**validates(ms, known))) for ms in (A_QUARTER_MS, HALF_MS))

    assert isinstance(quarter, NotJudged)
    assert (quarter.reason.code, quarter.lever) == ("passes-unknown", "validation-off:every=2")
    assert isinstance(half, Judged)


@pytest.mark.parametrize(
    ("cut_short", "ratio", "judged"),
    [(12, 1.7, True), (12, 0.8, False), (12, None, False), (1, 1.7, False)],
    ids=["short passes", "fewer samples", "unknown", "whole passes"],
)
def test_once_in_each_pass_that_is_cut_short_is_too_often_where_more_samples_are_validated_than_trained_on(cut_short, ratio, judged):
    known = Validations(among_steps=None, samples_ratio=ratio)

    answer = answer_of(NAME, measurements(**validates(A_QUARTER_MS, known, workers=1, count=12, cut_short=cut_short)))

    assert isinstance(answer, Judged) is judged
    if isinstance(answer, Judged):
        rows = {row.name: row.value for row in answer.finding.evidence}
        assert (rows["passes over the training data"], rows["samples validated"]) == (12, 1.7)


@pytest.mark.parametrize("own", [True, False])
def test_a_validation_on_the_trainings_own_loader_has_no_lever(own):
    known = Validations(among_steps=None, samples_ratio=1.0, reads_own_loader=own)

    found = finding(NAME, measurements(**validates(HALF_MS, known, workers=1)))

    assert (found.fixes[0].lever is None) is own
