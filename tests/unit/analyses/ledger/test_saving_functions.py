"""Functions that write checkpoints, and what else they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.record.writing import format as fmt

SNAPSHOT = (SCRIPT, "Trainer.snapshot", 60, 66)
AFTER_STEP = (SCRIPT, "after_step", 80, 83)
TORCH_SAVE = ("/usr/lib/python3.11/site-packages/torch/serialization.py", "save", 900, 960)
LOGGING = ("/usr/lib/python3.11/logging/__init__.py", "Logger.info", 1400, 1410)
PLACE = CodePlace("train.py", 60)
# A stack stands for so many ms.
EACH = 5


def _measured(
    folder: Path,
    called: tuple[tuple[str, str, int, int], ...],
    *,
    save: int,
    rest: int,
    before: bool = False,
    logs: int = 0,
    loop_saves: int = 0,
    stacks: int | None = None,
    calls: str | None = None,
) -> Measurements:
    """A hundred steps of 20 ms, after each fifth of which what the loop called writes for `save` ms, and does something else for `rest`
    (first where it is `before`), in what it `calls`, and `logs`; the loop itself writes for `loop_saves`. Of the writes only so many
    `stacks` are taken.
    """
    events = Events(folder)
    if calls is not None:
        events.trainer.calling[called[-1]] = calls
    events.loader()
    writing, beside, logging, own = (
        events.trainer.stack([LOOP, *frames]) for frames in ((*called, TORCH_SAVE), called, (*called, LOGGING), (TORCH_SAVE,))
    )
    now, left = 0.0, stacks

    def stay(stack: int, ms: int) -> float:
        nonlocal left
        for part in range(0, ms, EACH):
            if stack == writing and left is not None:
                left -= 1
                if left < 0:
                    continue
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
            now = stay(logging, logs)
            if loop_saves:
                events.save(now, now + loop_saves, 1_000_000)
                now = stay(own, loop_saves)
    return measure_recording(events.timeline())


def _parts(m: Measurements, stage: str) -> dict[PartKind, float]:
    return {part.kind: m.ledger.total_of(part) / 1e6 / m.steps.count for part in m.ledger.parts if part.stage == stage}


@pytest.mark.parametrize("before", [False, True], ids=["then", "first"])
def test_what_a_function_that_mostly_writes_a_checkpoint_does_besides_is_the_checkpoints(tmp_path, before):
    m = _measured(tmp_path, (SNAPSHOT,), save=60, rest=40, before=before)

    assert _parts(m, "store") == pytest.approx({PartKind.SAVE: 12, PartKind.SAVING_FUNCTION: 8}, rel=0.1)
    assert Part("store", PartKind.SAVING_FUNCTION, "Trainer.snapshot", PLACE) in m.ledger.parts
    assert m.ledger.written_within[Part("store", PartKind.SAVING_FUNCTION, "Trainer.snapshot", PLACE)] == pytest.approx(1.0)


def test_a_function_that_mostly_does_something_else_keeps_it(tmp_path):
    m = _measured(tmp_path, (AFTER_STEP,), save=40, rest=60)

    assert _parts(m, "store") == pytest.approx({PartKind.SAVE: 8}, rel=0.1)
    assert _parts(m, "output") == pytest.approx({PartKind.FUNCTION: 12}, rel=0.1)
    assert Part("output", PartKind.FUNCTION, "after_step", CodePlace("train.py", 80)) in m.ledger.parts


def test_the_loops_own_lines_are_for_everything(tmp_path):
    m = _measured(tmp_path, (), save=60, rest=40)

    assert PartKind.SAVING_FUNCTION not in _parts(m, "store")


@pytest.mark.parametrize(("stacks", "is_known"), [(4, False), (6, True)])
def test_few_stacks_tell_nobody_who_writes(tmp_path, stacks, is_known):
    m = _measured(tmp_path, (SNAPSHOT,), save=60, rest=40, stacks=stacks)

    assert (PartKind.SAVING_FUNCTION in _parts(m, "store")) is is_known


@pytest.mark.parametrize(("save", "is_for_it"), [(45, False), (55, True)])
def test_a_function_is_for_what_it_does_half_of_its_time(tmp_path, save, is_for_it):
    m = _measured(tmp_path, (SNAPSHOT,), save=save, rest=100 - save)

    assert (PartKind.SAVING_FUNCTION in _parts(m, "store")) is is_for_it


@pytest.mark.parametrize(
    ("calls", "is_for_it"),
    [("os.fsync", True), ("os.replace", True), ("replace", False), ("sys.stdout.flush", False), ("self.draw", False), (None, False)],
)
def test_what_brings_a_checkpoint_to_the_disk_is_writing(tmp_path, calls, is_for_it):
    m = _measured(tmp_path, (SNAPSHOT,), save=45, rest=55, calls=calls)

    assert (PartKind.SAVING_FUNCTION in _parts(m, "store")) is is_for_it


def test_what_it_does_in_two_stages_is_added_up(tmp_path):
    m = _measured(tmp_path, (SNAPSHOT,), save=60, rest=20, logs=20)

    assert _parts(m, "store") == pytest.approx({PartKind.SAVE: 12, PartKind.SAVING_FUNCTION: 8}, rel=0.1)
    assert float(m.ledger.ns.sum()) == pytest.approx(float(m.step_ns.sum()), rel=0.01)


def test_half_of_its_time_is_that_of_all_its_parts(tmp_path):
    m = _measured(tmp_path, (SNAPSHOT,), save=40, rest=30, logs=30)

    assert PartKind.SAVING_FUNCTION not in _parts(m, "store")
    assert float(m.ledger.ns.sum()) == pytest.approx(float(m.step_ns.sum()), rel=0.01)


def test_how_much_of_all_writing_a_function_does_is_known(tmp_path):
    m = _measured(tmp_path, (SNAPSHOT,), save=20, rest=10, loop_saves=60)

    assert m.ledger.written_within[Part("store", PartKind.SAVING_FUNCTION, "Trainer.snapshot", PLACE)] == pytest.approx(0.25, abs=0.02)
