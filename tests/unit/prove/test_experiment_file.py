from __future__ import annotations

import json

import pytest

from made_experiments import made_experiment, untried
from slowstep.errors import UnreadableInput
from slowstep.prove.choose import Choice
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.experiment import VERSION, ScriptStart, load, save
from slowstep.prove.lever_faults import LeverFault
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns
from slowstep.prove.stats.verdicts import ArmState
from slowstep.reason_words import sentence
from slowstep.reasons import SAID, Wording
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.writing.format import EXPERIMENT_FILE

WHY = Wording("why", "{count:count run} of {whole}")
PART = Wording("part", "{share:share}")
LEVER = Choice(spec=LeverSpec(name="checkpoint-off", every=10), role="fix", rule="blocking-checkpoint")
EXPERIMENT = made_experiment(
    (LEVER,),
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
    path.write_text(path.read_text().replace(f'"version": {VERSION}', f'"version": {VERSION + 1}'))

    with pytest.raises(UnreadableInput, match="newer slowstep"):
        load(tmp_path)


@pytest.mark.parametrize("ended_by", EndedBy)
def test_how_it_ended_stands_in_its_file_as_the_report_says_it(tmp_path, ended_by):
    save(made_experiment((), ended_by=ended_by), tmp_path)

    assert f'"ended_by": "{ended_by}"' in (tmp_path / EXPERIMENT_FILE).read_text()
    assert load(tmp_path).ended_by is ended_by


def test_reasons_are_kept_as_codes_and_values(tmp_path):
    reason = WHY(count=3, whole=PART(share=0.5))
    repeated = AllRepeated(levers={LEVER.name: RepeatedRuns(state=ArmState.FAILED, reason=reason)})
    save(made_experiment((LEVER,), repeated=repeated), tmp_path)

    found = load(tmp_path).repeated.levers[LEVER.name].reason
    assert found == reason
    assert (found.code, found.values["whole"].values["share"]) == ("why", 0.5)
    assert sentence(found) == "3 runs of 50 %"


def test_the_sentences_of_an_older_file_are_told_as_they_stand_there(tmp_path):
    said = SAID(said="no room")
    experiment = made_experiment(
        (LEVER,),
        untried=(untried("double-precision", "no room"),),
        faults=(LeverFault(choice=LEVER, reason=said),),
        starts=(ScriptStart(updates=5, rounds=0, came_to_its_end=True, reason=said),),
        repeated=AllRepeated(levers={LEVER.name: RepeatedRuns(state=ArmState.FAILED, reason=said)}),
    )
    save(experiment, tmp_path)
    path = tmp_path / EXPERIMENT_FILE
    older = json.loads(path.read_text()) | {"version": 1}
    for row in (*older["untried"], *older["faults"], *older["starts"], *older["repeated"]["levers"].values()):
        row["reason"] = "no room"
    path.write_text(json.dumps(older))

    assert load(tmp_path) == experiment


@pytest.mark.parametrize("template", ["no values", "{said} and {more}", "{said:share}", "{"])
def test_a_reason_whose_words_cannot_be_made_is_damage(tmp_path, template):
    save(EXPERIMENT, tmp_path)
    path = tmp_path / EXPERIMENT_FILE
    path.write_text(path.read_text().replace('"template": "{said}"', f'"template": "{template}"'))

    with pytest.raises(UnreadableInput, match=r"experiment\.json cannot be read"):
        load(tmp_path)
