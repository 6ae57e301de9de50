"""Functions that write checkpoints, and what else they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules import blocking_checkpoint, slow_callback
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.record.writing import format as fmt

SNAPSHOT = (SCRIPT, "Trainer.snapshot", 60, 66)
AFTER_STEP = (SCRIPT, "after_step", 80, 83)
TORCH_SAVE = ("/usr/lib/python3.11/site-packages/torch/serialization.py", "save", 900, 960)
PLACE = CodePlace("train.py", 60)
# A stack stands for so many ms.
EACH = 5


def _measured(folder: Path, called: tuple[tuple[str, str, int, int], ...], *, save: int, rest: int, before: bool = False) -> Measurements:
    """Fifty steps of 20 ms, after each fifth of which what the loop called writes for `save` ms and does something else for `rest`:
    fsync first where `before`, else afterwards."""
    events = Events(folder)
    events.loader()
    writing, beside = events.trainer.stack([LOOP, *called, TORCH_SAVE]), events.trainer.stack([LOOP, *called])
    now = 0.0

    def stay(stack: int, ms: int) -> float:
        for part in range(0, ms, EACH):
            when = at(now + part + EACH / 2)
            events.trainer.event(fmt.STACK, when, when, stack, EACH * 1e6, 0, thread=TRAINER_THREAD)
        return now + ms

    for step in range(100):
        events.wait(now, now + 1, step)
        events.backward(now + 5, now + 17)
        events.update(now + 18, now + 20)
        now += 20
        if step % 5 == 4:
            now = stay(beside, rest) if before else now
            events.save(now, now + save, 1_000_000)
            now = stay(writing, save)
            now = now if before else stay(beside, rest)
    return measure_recording(events.timeline())


def _parts(m: Measurements, stage: str) -> dict[PartKind, float]:
    return {part.kind: m.ledger.total_of(part) / 1e6 / m.steps.count for part in m.ledger.parts if part.stage == stage}


@pytest.mark.parametrize("before", [False, True], ids=["then", "first"])
def test_what_a_function_that_mostly_writes_a_checkpoint_does_besides_is_the_checkpoints(tmp_path, before):
    m = _measured(tmp_path, (SNAPSHOT,), save=60, rest=40, before=before)

    assert _parts(m, "store") == pytest.approx({PartKind.SAVE: 12, PartKind.SAVING_FUNCTION: 8}, rel=0.1)
    assert Part("store", PartKind.SAVING_FUNCTION, "Trainer.snapshot", PLACE) in m.ledger.parts
    assert slow_callback.judge(m) is None
    judged = blocking_checkpoint.judge(m)
    assert isinstance(judged, Judged)
    assert {part.kind for part in judged.finding.claims} == {PartKind.SAVE, PartKind.SAVING_FUNCTION}
    assert judged.finding.gain.predicted == pytest.approx(2, rel=0.1)
    assert judged.finding.fixes[0].lever == "stub=__main__:Trainer.snapshot"


def test_a_function_that_mostly_does_something_else_keeps_it(tmp_path):
    m = _measured(tmp_path, (AFTER_STEP,), save=40, rest=60)

    assert _parts(m, "store") == pytest.approx({PartKind.SAVE: 8}, rel=0.1)
    assert _parts(m, "output") == pytest.approx({PartKind.FUNCTION: 12}, rel=0.1)
    judged = slow_callback.judge(m)
    assert isinstance(judged, Judged)
    assert "after_step" in judged.finding.title


def test_the_loops_own_lines_are_for_everything(tmp_path):
    m = _measured(tmp_path, (), save=60, rest=40)

    assert PartKind.SAVING_FUNCTION not in _parts(m, "store")


def test_few_stacks_tell_nobody_who_writes(tmp_path):
    m = _measured(tmp_path, (SNAPSHOT,), save=1, rest=40)

    assert PartKind.SAVING_FUNCTION not in _parts(m, "store")
