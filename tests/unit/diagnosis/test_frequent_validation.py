"""How much of the time validations may take, by what is known of passes over the training data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.measurements import Measurements, measure
from slowstep.analyses.validations import Validations
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules.frequent_validation import judge
from slowstep.findings import NotJudged
from slowstep.sources.recording import SOURCE

ONCE_A_PASS, FREQUENT = Validations(among_steps=False, samples_ratio=1.3), Validations(among_steps=True, samples_ratio=2.0)
UNKNOWN = [
    None,
    Validations(among_steps=None, samples_ratio=1.3),
    Validations(among_steps=True, samples_ratio=0.9),
    Validations(among_steps=True, samples_ratio=None),
]
A_QUARTER_MS, HALF_MS = 180, 500


def _measured(folder: Path, each_ms: float, known: Validations | None) -> Measurements:
    """A training that validates every 25 steps of some 20 ms, as if no loader fed it."""
    m = measure(SOURCE.read(make_recording(folder, Training(steps=300, validation=(25, each_ms)))))
    return replace(m, loader=None, over_time=replace(m.over_time, validations=known))


def test_once_in_each_pass_a_quarter_of_the_time_is_no_problem_in_a_loop_without_a_loader(tmp_path):
    assert judge(_measured(tmp_path, A_QUARTER_MS, ONCE_A_PASS)) is None


def test_more_samples_than_were_trained_on_in_the_loop_of_the_steps_are_too_often(tmp_path):
    answer = judge(_measured(tmp_path, A_QUARTER_MS, FREQUENT))

    assert isinstance(answer, Judged)
    rows = {row.name: row for row in answer.finding.evidence}
    assert rows["passes over the training data"].value is None
    assert (rows["samples validated"].value, rows["samples validated"].threshold) == (2.0, 1.0)


@pytest.mark.parametrize("known", UNKNOWN, ids=str)
def test_where_passes_are_not_known_a_quarter_is_not_judged_and_half_is_too_much(tmp_path, known):
    quarter, half = (judge(_measured(tmp_path / str(each), each, known)) for each in (A_QUARTER_MS, HALF_MS))

    assert isinstance(quarter, NotJudged)
    assert quarter.reason.code == "passes-unknown"
    assert isinstance(half, Judged)


@pytest.mark.parametrize(
    ("cut_short", "ratio", "judged"),
    [(12, 1.7, True), (12, 0.8, False), (12, None, False), (1, 1.7, False)],
    ids=["short passes", "fewer samples", "unknown", "whole passes"],
)
def test_once_in_each_pass_that_is_cut_short_is_too_often_where_more_samples_are_validated_than_trained_on(
    tmp_path, cut_short, ratio, judged
):
    m = measure(SOURCE.read(make_recording(tmp_path, Training(steps=300, validation=(25, A_QUARTER_MS)))))
    over_time = replace(
        m.over_time,
        restarts=replace(m.over_time.restarts, count=12, cut_short=cut_short),
        validations=Validations(among_steps=None, samples_ratio=ratio),
    )

    answer = judge(replace(m, over_time=over_time))

    assert isinstance(answer, Judged) is judged
    if isinstance(answer, Judged):
        rows = {row.name: row.value for row in answer.finding.evidence}
        assert (rows["passes over the training data"], rows["samples validated"]) == (12, 1.7)


@pytest.mark.parametrize("own", [True, False])
def test_a_validation_on_the_trainings_own_loader_has_no_lever(tmp_path, own):
    m = measure(SOURCE.read(make_recording(tmp_path, Training(steps=300, validation=(25, HALF_MS)))))
    known = Validations(among_steps=None, samples_ratio=1.0, reads_own_loader=own)

    answer = judge(replace(m, over_time=replace(m.over_time, validations=known)))

    assert isinstance(answer, Judged)
    assert (answer.finding.fixes[0].lever is None) is own
