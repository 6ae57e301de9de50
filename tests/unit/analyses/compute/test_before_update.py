"""Functions of the user's between backward and update: perhaps needed, perhaps metrics that nobody looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.compute.before_update import BeforeUpdate
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.python.functions import FEWEST_STACKS
from slowstep.record.writing import format as fmt

CLIP = ("/usr/lib/python3.11/site-packages/torch/nn/utils/clip_grad.py", "clip_grad_norm_", 1, 2)
METRICS = (SCRIPT, "collect_metrics", 60, 62)
NORMS = (SCRIPT, "main.<locals>.<dictcomp>", 29, 29)


def _found(folder: Path, between_ms: float, *called: tuple[str, str, int, int], backwards: bool = True) -> BeforeUpdate | None:
    """Of sixty steps of 20 ms, and what is called between backward and update."""
    events = Events(folder)
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, *called])
    now = 0.0
    for batch in range(60):
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now + 1, now + 1.5, batch)
        if backwards:
            events.backward(now + 8, now + 17)
        events.trainer.event(fmt.STACK, at(now + 17 + between_ms / 2), at(now + 17 + between_ms / 2), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 17 + between_ms, now + 19 + between_ms)
        now += 20 + between_ms
    return measure_recording(events.timeline()).compute.before_update


@pytest.mark.parametrize(
    ("called", "name"), [(METRICS, "collect_metrics (train.py:60)"), (NORMS, "train.py:29")], ids=["a function", "a comprehension"]
)
def test_what_of_the_users_runs_there_is_named_with_its_share(tmp_path, called, name):
    found = _found(tmp_path, 10, called)

    assert found is not None
    assert (found.name, found.share) == (name, pytest.approx(10 / 30, rel=0.02))


def test_the_update_itself_is_not_between_where_backward_runs_in_a_closure_of_it(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, METRICS])
    for batch in range(60):
        now = batch * 30.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now + 1, now + 1.5, batch)
        events.backward(now + 8, now + 17)
        events.trainer.event(fmt.STACK, at(now + 22), at(now + 22), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 2, now + 29)

    assert measure_recording(events.timeline()).compute.before_update is None


@pytest.mark.parametrize("optimizer", [True, False], ids=["an optimizer", "a function"])
def test_what_another_optimizer_does_before_is_an_update_too(tmp_path, optimizer):
    events = Events(tmp_path)
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, (SCRIPT, "Muon.step", 60, 62)])
    for batch in range(60):
        now = batch * 30.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now + 1, now + 1.5, batch)
        events.backward(now + 8, now + 17)
        events.trainer.event(fmt.STACK, at(now + 22), at(now + 22), stack, 20e6, 0, thread=TRAINER_THREAD)
        if optimizer:
            events.update(now + 17, now + 27, optimizer=5)
        events.update(now + 28, now + 29)

    assert (measure_recording(events.timeline()).compute.before_update is None) is optimizer


def test_too_few_stacks_beside_another_optimizers_update_tell_nothing(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, METRICS])
    for batch in range(60):
        now = batch * 30.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now + 1, now + 1.5, batch)
        events.backward(now + 8, now + 17)
        when = now + (19 if batch >= 61 - FEWEST_STACKS else 23)
        events.trainer.event(fmt.STACK, at(when), at(when), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 21, now + 27, optimizer=5)
        events.update(now + 28, now + 29)

    assert measure_recording(events.timeline()).compute.before_update is None


def test_what_of_the_users_it_calls_is_known_too(tmp_path):
    found = _found(tmp_path, 10, METRICS, CLIP, (SCRIPT, "norms", 80, 81))

    assert found is not None
    assert found.functions == {(SCRIPT, 60), (SCRIPT, 80)}


def test_without_backwards_nothing_is_between(tmp_path):
    assert _found(tmp_path, 10, METRICS, backwards=False) is None


def test_clipping_is_the_trainings_own_work(tmp_path):
    assert _found(tmp_path, 10, CLIP) is None
