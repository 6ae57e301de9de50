from __future__ import annotations

import pytest

from made_experiments import made_experiment, untried
from slowstep.errors import UnreadableInput
from slowstep.prove.choose import Choice
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.experiment import load, save
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.writing.format import EXPERIMENT_FILE

EXPERIMENT = made_experiment(
    (Choice(spec=LeverSpec(name="checkpoint-off", every=10), role="fix", rule="blocking-checkpoint"),),
    untried=(untried("double-precision", "no lever can try it"),),
    until_ns=5,
    numerics={"autocast=bf16": {"says": "the losses are equal"}},
)


def test_what_was_kept_is_what_is_read(tmp_path):
    save(EXPERIMENT, tmp_path)

    assert load(tmp_path) == EXPERIMENT
    assert [path.name for path in tmp_path.iterdir()] == [EXPERIMENT_FILE]


def test_a_plain_recording_has_none(tmp_path):
    assert load(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", '{"choices": 3}', "[]"])
def test_a_damaged_file_is_said_to_be_one(tmp_path, text):
    (tmp_path / EXPERIMENT_FILE).write_text(text)

    with pytest.raises(UnreadableInput, match=r"experiment\.json cannot be read"):
        load(tmp_path)


def test_a_newer_file_is_not_guessed_at(tmp_path):
    save(EXPERIMENT, tmp_path)
    path = tmp_path / EXPERIMENT_FILE
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))

    with pytest.raises(UnreadableInput, match="newer slowstep"):
        load(tmp_path)


@pytest.mark.parametrize("ended_by", EndedBy)
def test_how_it_ended_stands_in_its_file_as_the_report_says_it(tmp_path, ended_by):
    save(made_experiment((), ended_by=ended_by), tmp_path)

    assert f'"ended_by": "{ended_by}"' in (tmp_path / EXPERIMENT_FILE).read_text()
    assert load(tmp_path).ended_by is ended_by
