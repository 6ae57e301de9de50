"""Where a loop without a loader calls its validation, and on how many samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from made_recordings import LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.over_time.validations import Validations
from slowstep.record.writing.format import END, EVALUATING, NO_GRADIENT, STACK

STEPS, EVERY = 60, 10
FILE, FUNCTION, FIRST, UPDATE_LINE = LOOP
OUTER = (SCRIPT, "<module>", 1, 99)
EVALUATE = (SCRIPT, "evaluate", 70, 72)
LIBRARY = ("/usr/lib/python3.11/site-packages/fitter/fit.py", "fit", 5, 9)


def _around(*functions: tuple[tuple[str, str, int, int], int, int]) -> dict[str, Any]:
    rows = [[file, name, begins, [[first, last]]] for (file, name, begins, _), first, last in functions]
    return {"kind": "loops_around", "optimizer": 0, "functions": rows}


def validations(
    folder: Path, called_at: tuple[tuple[str, str, int, int], ...], loops: dict[str, Any] | None, way=(OUTER, LOOP), samples: int = 64
) -> Validations | None:
    """Every ten steps two forwards of `samples` without gradients, in evaluation mode, in a stack of `called_at`."""
    events, now = Events(folder), 0.0
    path = [[file, name, begins, line] for file, name, begins, line in way]
    events.trainer.lines += [{"kind": "training_path", "optimizer": 0, "frames": path}, *([loops] if loops else [])]
    for step in range(STEPS):
        events.forward(now, now + 2)
        events.backward(now + 2, now + 6)
        events.update(now + 6, now + 7)
        now += 7.1
        if (step + 1) % EVERY == 0:
            for _ in range(2):
                events.forward(now, now + 10, samples, flags=NO_GRADIENT | EVALUATING)
                stack = events.trainer.stack([*called_at, EVALUATE])
                events.trainer.event(STACK, at(now + 5), at(now + 5), stack, 5 * MS, 0, thread=TRAINER_THREAD)
                now += 10.1
    return measure_recording(events.timeline(), warmup=0).over_time.validations


def _at(line: int) -> tuple[str, str, int, int]:
    return (FILE, FUNCTION, FIRST, line)


STEP_LOOP = _around((OUTER, 95, 99), (LOOP, UPDATE_LINE - 5, UPDATE_LINE + 5))


@pytest.mark.parametrize(
    ("called_at", "among_steps"),
    [
        ((OUTER, _at(UPDATE_LINE + 4)), True),
        ((OUTER, _at(UPDATE_LINE + 6)), False),
        (((*OUTER[:3], 98),), False),
    ],
    ids=["in the loop", "after it", "in the caller's loop, around it"],
)
def test_a_validation_is_told_to_be_in_the_innermost_loop_of_the_steps_by_its_line(tmp_path, called_at, among_steps):
    found = validations(tmp_path, called_at, STEP_LOOP)

    assert found is not None
    assert found.among_steps is among_steps


def test_a_function_without_a_loop_is_called_in_its_callers(tmp_path):
    found = validations(tmp_path, (OUTER, _at(UPDATE_LINE + 9)), _around((OUTER, 95, 99)))

    assert found is not None
    assert found.among_steps is True


@pytest.mark.parametrize(
    ("loops", "way"), [(None, (OUTER, LOOP)), (STEP_LOOP, (OUTER, LIBRARY, LOOP))], ids=["not recorded", "of a library"]
)
def test_where_loops_are_not_known_nothing_is_said(tmp_path, loops, way):
    found = validations(tmp_path, ((*OUTER[:3], 98),), loops, way)

    assert found is not None
    assert found.among_steps is None


def test_samples_are_held_against_those_trained_on_in_the_window(tmp_path):
    found = validations(tmp_path, (OUTER, LOOP), STEP_LOOP, samples=120)

    assert found is not None
    assert found.samples_ratio == pytest.approx(2 * 120 / (EVERY * 16), rel=0.2)


def test_what_a_sample_takes_is_held_against_the_training_and_the_function_is_named(tmp_path):
    found = validations(tmp_path, (OUTER, LOOP), STEP_LOOP)

    assert found is not None
    pace = found.pace
    assert pace is not None
    # Two forwards of 10.1 ms for 64 samples each, and of the training 7.1 ms for 16, 2 of them in the forward.
    assert pace.sample_ns == pytest.approx(10.1 * MS / 64, rel=0.02)
    assert pace.trained_ns == pytest.approx(7.1 * MS / 16, rel=0.02)
    assert pace.forward_ns == pytest.approx(2 * MS / 16, rel=0.02)
    assert (pace.forwards, pace.larger, pace.input_ns) == (1.0, 1.0, 0.0)
    assert pace.forward_share == pytest.approx(0.99, rel=0.02)
    assert pace.function == "evaluate (train.py:70)"


def _fed(folder: Path, *, workers_stay: bool = False, samples: int = 16, flags: int = NO_GRADIENT | EVALUATING) -> Validations | None:
    """Every ten steps a loader is read for four batches of which each takes 5 ms to make, 2 in the forward and 3 besides."""
    events, now, iterator = Events(folder), 0.0, 1
    events.loader(iterator=iterator)
    for step in range(STEPS):
        events.wait(now, now + 1, step, iterator=1)
        events.forward(now + 1, now + 3)
        events.backward(now + 3, now + 8)
        events.update(now + 8, now + 9)
        now += 9.1
        if (step + 1) % EVERY == 0:
            if iterator == 1 or not workers_stay:
                iterator += 1
                events.loader(iterator=iterator, loader=1, begin=now, end=now + 0.01)
            for batch in range(4):
                events.wait(now + 0.1, now + 5.1, batch, iterator=iterator, samples=samples)
                events.forward(now + 5.1, now + 7.1, samples, flags=flags)
                now += 10.1
            events.wait(now, now + 0.01, 4, iterator=iterator, samples=-1, flags=END)
            now += 0.02
    return measure_recording(events.timeline(), warmup=0).over_time.validations


@pytest.mark.parametrize("stay", [True, False])
def test_of_a_loaders_batches_the_waits_and_forwards_are_told_apart(tmp_path, stay):
    found = _fed(tmp_path, workers_stay=stay)

    assert found is not None
    pace = found.pace
    assert pace is not None
    assert pace.sample_ns == pytest.approx(10.1 * MS / 16, rel=0.1)
    assert pace.trained_ns == pytest.approx(9.1 * MS / 16, rel=0.1)
    assert pace.input_ns == pytest.approx(1 * MS / 16, rel=0.1)
    assert pace.forwards == pytest.approx(1.0)
    assert (pace.waiting_share, pace.forward_share) == (pytest.approx(0.5, rel=0.1), pytest.approx(0.2, rel=0.1))
    assert pace.batch == 16


def test_where_a_batch_does_not_say_how_many_samples_it_has_nothing_is_known(tmp_path):
    found = _fed(tmp_path, samples=-1)

    assert found is not None
    assert found.pace is None


def test_where_forwards_are_not_recorded_stacks_tell_how_much_of_a_validation_is_the_model(tmp_path):
    events, now = Events(tmp_path), 0.0
    events.loader(iterator=1)
    model = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module._call_impl", 5, 9)
    path = [[file, name, begins, line] for file, name, begins, line in (OUTER, LOOP)]
    events.trainer.lines.append({"kind": "training_path", "optimizer": 0, "frames": path})
    for step in range(STEPS):
        events.wait(now, now + 1, step, iterator=1)
        events.backward(now + 3, now + 8)
        events.update(now + 8, now + 9)
        now += 9.1
        if (step + 1) % EVERY == 0:
            events.loader(iterator=2 + step, loader=1, begin=now, end=now + 0.01)
            for batch in range(4):
                events.wait(now + 0.1, now + 1.1, batch, iterator=2 + step, samples=1)
                for at_ms, frames in ((3, [model]), (5, [model]), (7, [model]), (9, [])):
                    stack = events.trainer.stack([OUTER, (*LOOP[:3], UPDATE_LINE + 9), EVALUATE, *frames])
                    events.trainer.event(STACK, at(now + at_ms), at(now + at_ms), stack, 2 * MS, 0, thread=TRAINER_THREAD)
                now += 10.1
            events.wait(now, now + 0.01, 4, iterator=2 + step, samples=-1, flags=END)
            now += 0.02

    found = measure_recording(events.timeline(), warmup=0).over_time.validations

    assert found is not None
    assert found.pace is not None
    assert (found.pace.forwards, found.pace.forward_ns, found.pace.batch) == (None, None, 1)
    assert found.pace.forward_share == pytest.approx(0.75)
    assert found.pace.function == "evaluate (train.py:70)"
