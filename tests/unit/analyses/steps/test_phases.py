"""Trainings that follow one another on a thread, each with an optimizer of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from made_recordings import SCRIPT
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.steps.trainer import Trainer, find_trainer
from slowstep.document.recording_doubts import find_recording_doubts
from slowstep.reason_words import sentence

MAIN, FIT, PRETRAIN = (SCRIPT, "<module>", 1, 90), (SCRIPT, "fit", 40, 52), (SCRIPT, "pretrain", 10, 22)


def _called_by(events: Events, optimizer: int, *way: tuple[str, str, int, int]) -> None:
    events.trainer.lines.append({"kind": "training_path", "optimizer": optimizer, "frames": [list(frame) for frame in way]})


def _fit(events: Events, optimizer: int, begin: float, steps: int, length: float = 10.0) -> float:
    """Steps without a loader; returns when they have ended."""
    for k in range(steps):
        end = begin + (k + 1) * length
        events.backward(end - 0.8 * length, end - 0.2 * length)
        events.update(end - 0.2 * length, end, optimizer)
    return begin + steps * length


def test_an_optimizer_made_anew_for_every_fold_goes_on_with_the_same_training(tmp_path):
    events, end = Events(tmp_path), 0.0
    for optimizer in (1, 2, 3):
        _called_by(events, optimizer, MAIN, FIT)
        end = _fit(events, optimizer, end, 20)

    trainer = find_trainer(events.timeline())

    assert len(trainer.update_end_ns) == 60
    assert trainer.way_to_update[-1].function == "fit"
    assert trainer.takes_turns
    assert trainer.elsewhere is None


def _trainings(folder: Path, *trained: tuple[int, int], length: float = 10.0) -> Trainer:
    """Optimizers made by one line: of each the one whose parameters it has (0: new ones), and its steps."""
    events, end = Events(folder), 0.0
    for number, (shares, steps) in enumerate(trained, start=1):
        _called_by(events, number, MAIN, FIT)
        events.trainer.lines.append({"kind": "optimizer", "id": number, "shares": shares})
        end = _fit(events, number, end, steps, length)
    return find_trainer(events.timeline())


def test_of_folds_that_each_train_a_new_model_the_longest_is_looked_at(tmp_path):
    trainer = _trainings(tmp_path, (0, 50), (0, 60), (0, 45))

    assert (trainer.optimizer, len(trainer.update_end_ns)) == (2, 60)
    assert trainer.elsewhere is not None
    assert [(each.steps, each.is_judged) for each in trainer.elsewhere.trainings] == [(50, False), (60, True), (45, False)]
    # Its share is that of others, though they are alike and may well be judged by this one.
    assert trainer.elsewhere.share == pytest.approx(95 / 155, abs=0.01)
    assert trainer.elsewhere.unlike_share == 0.0


def test_of_trainings_of_equal_length_the_first_is_looked_at(tmp_path):
    assert _trainings(tmp_path, (0, 60), (0, 60)).optimizer == 1


@pytest.mark.parametrize(
    ("trained", "models"),
    [
        ([(0, 50), (1, 50), (2, 50)], 1),
        ([(0, 50), (0, 50), (1, 50), (2, 50)], 2),
        ([(0, 20), (0, 20), (0, 30)], 3),
        ([(0, 50)] * 30, 30),
    ],
    ids=["made anew for the same model", "models in turns", "too few steps of each", "many models of few steps each"],
)
def test_optimizers_of_one_line_are_one_trainings_and_so_many_models_are_counted(tmp_path, trained, models):
    trainer = _trainings(tmp_path, *trained)

    assert trainer.models == models
    assert len(trainer.update_end_ns) == sum(steps for _, steps in trained)
    assert trainer.elsewhere is None


def test_optimizers_of_an_older_recording_are_one_trainings(tmp_path):
    events, end = Events(tmp_path), 0.0
    for optimizer in (1, 2):
        _called_by(events, optimizer, MAIN, FIT)
        events.trainer.lines.append({"kind": "optimizer", "id": optimizer, "params": 10})
        end = _fit(events, optimizer, end, 60)

    assert len(find_trainer(events.timeline()).update_end_ns) == 120


def test_a_training_of_the_same_line_with_other_steps_is_another_one_and_listed(tmp_path):
    events, end = Events(tmp_path), 0.0
    for optimizer, length in ((1, 10.0), (2, 40.0)):
        _called_by(events, optimizer, MAIN, FIT)
        events.trainer.lines.append({"kind": "optimizer", "id": optimizer, "shares": 0})
        end = _fit(events, optimizer, end, 60, length)

    m = measure_recording(events.timeline())

    assert m.trainer.optimizer == 2
    assert [training.is_judged for training in m.trainer.elsewhere.trainings] == [False, True]


@pytest.mark.parametrize(("asked", "samples"), [(1, 59 * 16), (4, None)], ids=["one batch a step", "several, which may be filtered"])
def test_samples_of_a_listed_training_are_told_where_all_that_is_asked_for_is_trained_on(tmp_path, asked, samples):
    events = Events(tmp_path)
    for optimizer in (1, 2):
        _called_by(events, optimizer, MAIN, FIT)
        events.trainer.lines.append({"kind": "optimizer", "id": optimizer, "shares": 0})
        events.loader(iterator=optimizer, loader=1)
        for k in range(60):
            begin = 600.0 * optimizer + 10 * k
            for batch in range(asked):
                events.wait(begin + batch, begin + batch + 0.999, asked * k + batch, iterator=optimizer)
            events.backward(begin + 5, begin + 8)
            events.update(begin + 8, begin + 9, optimizer)

    trainer = find_trainer(events.timeline())

    assert trainer.elsewhere is not None
    assert [each.samples for each in trainer.elsewhere.trainings] == [samples, samples]


def test_optimizers_that_are_called_in_turns_are_not_one_though_the_same_line_calls_them(tmp_path):
    events = Events(tmp_path)
    for optimizer in (1, 2):
        _called_by(events, optimizer, MAIN, FIT)
    for k in range(20):
        events.update(10 * k, 10 * k + 1, optimizer=1)
        events.update(10 * k + 5, 10 * k + 6, optimizer=2)

    trainer = find_trainer(events.timeline())

    assert len(trainer.update_end_ns) == 20
    assert trainer.optimizer == 2
    assert trainer.elsewhere is None


def test_of_a_pretraining_and_a_training_from_another_line_the_longer_one_is_looked_at(tmp_path):
    events = Events(tmp_path)
    _called_by(events, 1, MAIN, PRETRAIN)
    _called_by(events, 2, MAIN, FIT)
    _fit(events, 2, _fit(events, 1, 0, 100), 60, length=30)

    trainer = find_trainer(events.timeline())

    assert trainer.optimizer == 2
    assert len(trainer.update_end_ns) == 60
    assert trainer.spans.height == 60
    assert trainer.elsewhere is not None
    assert trainer.elsewhere.updates == 100
    assert trainer.elsewhere.share == pytest.approx(1.0 / 2.8, abs=0.01)


def test_a_longer_training_of_too_few_steps_is_not_looked_at(tmp_path):
    events = Events(tmp_path)
    _called_by(events, 1, MAIN, PRETRAIN)
    _called_by(events, 2, MAIN, FIT)
    _fit(events, 2, _fit(events, 1, 0, 100), 5, length=500)

    assert find_trainer(events.timeline()).optimizer == 1


def test_what_is_not_looked_at_is_said(tmp_path):
    events = Events(tmp_path)
    _called_by(events, 1, MAIN, PRETRAIN)
    _called_by(events, 2, MAIN, FIT)
    _fit(events, 2, _fit(events, 1, 0, 100), 60, length=30)

    m = measure_recording(events.timeline())

    (row,) = (row for row in find_recording_doubts(m) if row.name == "other-trainings")
    assert row.count == 1
    assert "100 updates of other optimizers before or after these (pretrain (train.py:22))" in sentence(row.remedy)
