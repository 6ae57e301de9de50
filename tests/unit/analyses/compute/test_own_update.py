"""Optimizers of the script's own, by the stacks in their updates."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing import format as fmt

WRAPPER = ("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper", 1, 2)
WITHOUT = ("/usr/lib/python3.11/site-packages/torch/utils/_contextlib.py", "context_decorator.<locals>.decorate_context", 1, 2)
ADAM = ("/usr/lib/python3.11/site-packages/torch/optim/adam.py", "Adam.step", 1, 2)
MUON = (SCRIPT, "Muon.step", 60, 66)
ORTHOGONAL = (SCRIPT, "orthogonal", 40, 44)


def _found(folder: Path, *path: tuple[str, str, int, int], closure: bool = False) -> OwnUpdate | None:
    """Of sixty steps of 20 ms, half of them an update whose stacks have this path."""
    events = Events(folder)
    events.trainer.lines.append({"kind": "optimizer", "id": 0, "framework": "torch", "type": "Muon", "params": 6000, "tensors": 60})
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, *path])
    for batch in range(60):
        now = batch * 20.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now, now + 0.5, batch)
        events.backward(now + (12 if closure else 1), now + (13 if closure else 9))
        events.trainer.event(fmt.STACK, at(now + 15), at(now + 15), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 10, now + 20)
    return measure_recording(events.timeline()).compute.own_update


@pytest.mark.parametrize("inner", [(MUON,), (WITHOUT, MUON, ORTHOGONAL)], ids=["its own line", "a function that it calls"])
def test_the_line_of_a_scripts_own_optimizer_is_named_with_its_share(tmp_path, inner):
    found = _found(tmp_path, WRAPPER, *inner)

    assert found is not None
    assert (found.name, found.place, found.elements) == ("Muon.step", "train.py:66", 100)
    assert found.share == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("path", "closure"),
    [((WRAPPER, ADAM), False), ((WRAPPER, ADAM, ORTHOGONAL), True), ((WRAPPER, MUON), True), ((ORTHOGONAL,), False)],
    ids=["the framework's", "a closure", "a closure of its own", "no update of a framework"],
)
def test_what_is_no_optimizer_of_the_scripts_is_not(tmp_path, path, closure):
    assert _found(tmp_path, *path, closure=closure) is None
