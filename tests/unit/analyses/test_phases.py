"""Trainings that follow one another on a thread, each with an optimizer of its own."""

from __future__ import annotations

import pytest

from made_events import Events
from made_recordings import SCRIPT
from slowstep.analyses.measurements import measure
from slowstep.analyses.trainer import find_trainer
from slowstep.diagnosis.engine import diagnose
from slowstep.workflow.doubts import find_doubts

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


def test_what_is_not_looked_at_is_said_and_leaves_no_training_healthy(tmp_path):
    events = Events(tmp_path)
    _called_by(events, 1, MAIN, PRETRAIN)
    _called_by(events, 2, MAIN, FIT)
    _fit(events, 2, _fit(events, 1, 0, 100), 60, length=30)

    m = measure(events.timeline())

    assert "36 % of the training time" in diagnose(m).verdict.summary
    (row,) = (row for row in find_doubts(m) if row.name == "other-trainings")
    assert row.count == 1
    assert "100 updates of other optimizers before or after these (pretrain (train.py:22))" in row.remedy
