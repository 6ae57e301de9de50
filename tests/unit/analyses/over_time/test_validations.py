"""Where a loop without a loader calls its validation, and on how many samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from made_recordings import LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.over_time.validations import Validations
from slowstep.record.writing.format import EVALUATING, NO_GRADIENT, STACK

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
