"""Functions of the user's between backward and update: perhaps needed, perhaps metrics that nobody looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.record.writing import format as fmt
from slowstep.workflow.diagnose import diagnose_recording

CLIP = ("/usr/lib/python3.11/site-packages/torch/nn/utils/clip_grad.py", "clip_grad_norm_", 1, 2)
METRICS = (SCRIPT, "collect_metrics", 60, 62)
NORMS = (SCRIPT, "main.<locals>.<dictcomp>", 29, 29)


def _verdict(folder: Path, between_ms: float, called: tuple[str, str, int, int], *, backwards: bool = True) -> dict[str, Any]:
    """Of sixty steps of 20 ms, and what is called between backward and update."""
    events = Events(folder)
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, called])
    now = 0.0
    for batch in range(60):
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now + 1, now + 1.5, batch)
        if backwards:
            events.backward(now + 8, now + 17)
        events.trainer.event(fmt.STACK, at(now + 17 + between_ms / 2), at(now + 17 + between_ms / 2), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 17 + between_ms, now + 19 + between_ms)
        now += 20 + between_ms
    return dict(diagnose_recording(events.close())["verdict"])


def test_a_function_of_the_users_there_is_named_and_not_called_the_trainings_own_work(tmp_path):
    verdict = _verdict(tmp_path, 10, METRICS)

    assert (verdict["state"], verdict["code"]) == ("undetermined", "before-update")
    assert "collect_metrics (train.py:60)" in verdict["summary"]


def test_a_comprehension_of_the_loop_is_named_by_its_line(tmp_path):
    verdict = _verdict(tmp_path, 10, NORMS)

    assert verdict["code"] == "before-update"
    assert "line 29 (train.py)" in verdict["summary"]


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

    assert diagnose_recording(events.close())["verdict"]["code"] != "before-update"


def test_without_backwards_nothing_is_between(tmp_path):
    assert _verdict(tmp_path, 10, METRICS, backwards=False)["code"] != "before-update"


@pytest.mark.parametrize(("between_ms", "called"), [(10, CLIP), (1, METRICS)], ids=["what torch clips", "a short one"])
def test_clipping_and_short_functions_are_the_trainings_own_work(tmp_path, between_ms, called):
    assert _verdict(tmp_path, between_ms, called)["code"] != "before-update"
