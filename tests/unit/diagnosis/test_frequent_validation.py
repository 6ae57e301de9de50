"""How much of the time validations may take, by what is known of passes over the training data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judged import answer_of, finding
from made_measurements import MS, every, measurements, per_step
from slowstep.analyses.input.validation_batches import ValidationBatches
from slowstep.analyses.over_time.event_name import EventName
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.analyses.over_time.validation_pace import ValidationPace
from slowstep.analyses.over_time.validations import Validations
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.slow_validation import SLOWER
from slowstep.diagnosis.rule import Judged
from slowstep.findings import NotJudged
from slowstep.frameworks._known import all_words
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


def test_once_in_each_pass_a_quarter_of_the_time_is_advice_with_its_headroom_in_a_loop_without_a_loader():
    m = measurements(**validates(A_QUARTER_MS, ONCE_A_PASS))

    found = finding(NAME, m)

    assert (found.advisory, found.claims, found.gain.predicted) == (True, (), None)
    assert found.gain.headroom == pytest.approx(1 / (1 - found.share))
    assert diagnose(m).verdict.state == "healthy"


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

    assert isinstance(answer, Judged)
    assert answer.finding.advisory is not judged
    if judged:
        rows = {row.name: row.value for row in answer.finding.evidence}
        assert (rows["passes over the training data"], rows["samples validated"]) == (12, 1.7)


@pytest.mark.parametrize("own", [True, False])
def test_a_validation_on_the_trainings_own_loader_has_no_lever(own):
    known = Validations(among_steps=None, samples_ratio=1.0, reads_own_loader=own)

    found = finding(NAME, measurements(**validates(HALF_MS, known, workers=1)))

    assert (found.fixes[0].lever is None) is own


# Of a training that takes 1.2 ms for a sample, 0.4 of them in the forward.
TRAINED_MS, FORWARD_MS = 1.2, 0.4


def pace(sample_ms: float, **known: Any) -> Validations:
    """Validations once in a pass that take so long for a sample; what is not said of them is a plain validation's."""
    usual: dict[str, Any] = {
        "trained_ns": TRAINED_MS * MS,
        "input_ns": 0.0,
        "forward_ns": FORWARD_MS * MS,
        "forwards": 1.0,
        "batch": 16.0,
        "larger": 1.0,
        "waiting_share": 0.1,
        "forward_share": 0.8,
    }
    return replace(ONCE_A_PASS, pace=ValidationPace(sample_ns=sample_ms * MS, **(usual | known)))


# A quarter of the time, 7.2 ms of each step of 26.7, would be a tenth of that.
SLOW = pace(4.0)


def test_a_validation_that_takes_longer_for_a_sample_than_a_whole_step_is_slow_and_gains_what_the_trainings_forward_leaves():
    m = measurements(**validates(A_QUARTER_MS, SLOW))

    found = finding(NAME, m)

    step_ms = 19.5 + A_QUARTER_MS / 25
    assert (found.advisory, found.claims) == (False, (VALIDATION,))
    assert found.gain.predicted == pytest.approx(step_ms / (step_ms - 0.9 * A_QUARTER_MS / 25), rel=0.01)
    assert found.gain.low is not None
    assert found.gain.low < step_ms / (step_ms - 0.7 * A_QUARTER_MS / 25)
    assert (found.fixes[0].lever, found.fixes[0].bounded_by) == (None, "validation-off")
    assert diagnose(m).verdict.rule == NAME


@pytest.mark.parametrize(
    "known",
    [
        pace(FORWARD_MS),
        pace(TRAINED_MS * (SLOWER - 0.01)),
        pace(4.0, forwards=8.0),
        pace(4.0, forwards=None),
        pace(4.0, forwards=None, forward_share=None),
        pace(4.0, larger=3.0),
        pace(4.0, trained_ns=3.5 * MS, input_ns=3.0 * MS),
    ],
    ids=[
        "forward alone",
        "as long as a step",
        "eight views of each",
        "by calls as large as the training's",
        "not seen",
        "larger pictures",
        "as slow as the training's input",
    ],
)
def test_a_plain_validation_of_a_quarter_and_one_that_does_more_by_its_nature_are_healthy(known):
    m = measurements(**validates(A_QUARTER_MS, known))

    assert finding(NAME, m).advisory
    assert diagnose(m).verdict.state == "healthy"


@pytest.mark.parametrize(
    "known",
    [
        pace(4.0, forwards=None, batch=1.0),
        pace(4.0, forwards=None, forward_share=0.2),
        pace(4.0, forwards=None, forward_share=None, waiting_share=0.8),
    ],
    ids=["small batches", "mostly results", "waits for batches"],
)
def test_where_calls_of_the_model_are_not_recorded_what_holds_a_slow_one_tells(known):
    assert not finding(NAME, measurements(**validates(A_QUARTER_MS, known))).advisory


def test_a_tenth_of_the_time_is_not_looked_at():
    assert answer_of(NAME, measurements(**validates(55.0, SLOW))) is None


def test_what_the_training_waits_for_its_own_input_is_left_to_the_validation_too():
    known = pace(4.0, input_ns=0.8 * MS)

    found = finding(NAME, measurements(**validates(A_QUARTER_MS, known)))

    step_ms = 19.5 + A_QUARTER_MS / 25
    assert found.gain.predicted == pytest.approx(step_ms / (step_ms - 0.7 * A_QUARTER_MS / 25), rel=0.01)


@pytest.mark.parametrize("ms", [HALF_MS, 2 * HALF_MS])
def test_where_it_is_too_often_and_slow_the_larger_gain_leads(ms):
    slow, little = (finding(NAME, measurements(**validates(ms, known))) for known in (SLOW, pace(1.5, forward_ns=1.0 * MS)))

    assert (slow.fixes[0].bounded_by, slow.fixes[-1].lever) == ("validation-off", "validation-off:every=2")
    assert little.fixes[0].lever == "validation-off:every=2"


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("held", [{"waiting_share": 0.8, "forward_share": 0.1}, {"forward_share": 0.2}, {}])
def test_a_slow_validation_names_the_function_that_holds_most_of_it(held, own):
    known = pace(4.0, function="gather (train.py:80)", function_share=0.8, **held)

    found = finding(NAME, measurements(**validates(A_QUARTER_MS, replace(known, reads_own_loader=own))))

    assert {row.name: row.value for row in found.evidence}["of it in"] == "gather (train.py:80)"
    assert found.names_cause
    assert (found.fixes[0].bounded_by is None) is own


@pytest.mark.parametrize(
    ("known", "restarts", "said"),
    [
        # Of epochs that were not seen to begin it is not known how many lie between two validations.
        (ONCE_A_PASS, {}, "validation_freq=..."),
        (FREQUENT, {}, "validation_freq=..."),
        (FREQUENT, {"count": 8}, "validation_freq=2"),
    ],
)
def test_where_validations_are_counted_by_epochs_alone_they_are_to_come_every_so_many(known, restarts, said):
    found = finding(NAME, measurements(**validates(HALF_MS, known, **restarts), words=all_words()["keras"]))

    assert said in found.fixes[0].text


@pytest.mark.parametrize(("reads", "asked", "advisory"), [("arrays", None, True), ("arrays", 5, False), (None, None, False)])
def test_a_loop_that_validates_after_passes_alone_does_it_once_in_each(reads, asked, advisory):
    facts = {"framework": "keras", "steps_per_epoch": asked}
    m = measurements(**validates(A_QUARTER_MS, FREQUENT, workers=1), words=all_words()["keras"], reads=reads, notes={"facts": facts})

    assert finding(NAME, m).advisory is advisory


@pytest.mark.parametrize(("function", "where"), [("Words.tokenise (train.py:12)", "Words.tokenise (train.py:12), by stacks"), (None, None)])
def test_the_loader_that_holds_most_of_a_validation_is_named_with_its_function_where_that_is_known(function, where):
    batches = ValidationBatches(dataset="Words", num_workers=0, share=0.9, function=function, function_share=0.8)

    found = finding(NAME, measurements(**validates(HALF_MS, replace(FREQUENT, batches=batches))))
    rows = {row.name: row for row in found.evidence}

    assert rows["waiting for batches"].value == 0.9
    assert (rows["most of it in"].where if "most of it in" in rows else None) == where
    assert sum(batches.function is not None and batches.function in fix.text for fix in found.fixes) == (function is not None)
