"""Optimizers of the script's own, by the stacks in their updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from made_recordings import LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.python.functions import FEWEST_STACKS
from slowstep.record.writing import format as fmt

WRAPPER = ("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper", 1, 2)
WITHOUT = ("/usr/lib/python3.11/site-packages/torch/utils/_contextlib.py", "context_decorator.<locals>.decorate_context", 1, 2)
ADAM = ("/usr/lib/python3.11/site-packages/torch/optim/adam.py", "Adam.step", 1, 2)
MUON = (SCRIPT, "Muon.step", 60, 66)
ORTHOGONAL = (SCRIPT, "orthogonal", 40, 44)
HOOK = (SCRIPT, "average", 20, 24)
LION = (SCRIPT, "Lion.step", 80, 84)


def _found(folder: Path, *path: tuple[str, str, int, int], closure: bool = False, taken: int = 60, lines: Any = ()) -> OwnUpdate | None:
    """Of sixty steps of 20 ms, half of them an update; so many stacks are taken there and have this path."""
    events = Events(folder)
    sizes = {"params": 6000, "tensors": 60, "shapes": 3}
    events.trainer.lines.append({"kind": "optimizer", "id": 0, "framework": "torch", "type": "Muon", **sizes})
    events.trainer.lines.append({"kind": "lines", "of": "body", "complete": True, "lines": list(lines)})
    events.loader(workers=1)
    stack = events.trainer.stack([LOOP, *path])
    for batch in range(60):
        now = batch * 20.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now, now + 0.5, batch)
        events.backward(now + (12 if closure else 1), now + (13 if closure else 9))
        if batch < taken:
            events.trainer.event(fmt.STACK, at(now + 15), at(now + 15), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 10, now + 20)
    return measure_recording(events.timeline()).compute.own_update


@pytest.mark.parametrize("inner", [(MUON,), (WITHOUT, MUON, ORTHOGONAL)], ids=["its own line", "a function that it calls"])
def test_the_line_of_a_scripts_own_optimizer_is_named_with_its_share(tmp_path, inner):
    found = _found(tmp_path, WRAPPER, *inner)

    assert found is not None
    assert (found.name, found.place, found.elements) == ("Muon.step", "train.py:66", 100)
    assert (found.tensors, found.shapes) == (60, 3)
    assert found.share == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("path", "closure"),
    [
        ((WRAPPER, ADAM), False),
        ((WRAPPER, ADAM, ORTHOGONAL), True),
        ((WRAPPER, MUON), True),
        ((ORTHOGONAL,), False),
        ((WRAPPER, HOOK), False),
    ],
    ids=["the framework's", "a closure", "a closure of its own", "no update of a framework", "a hook of the optimizer"],
)
def test_what_is_no_optimizer_of_the_scripts_is_not(tmp_path, path, closure):
    assert _found(tmp_path, *path, closure=closure) is None


@pytest.mark.parametrize(("taken", "is_found"), [(FEWEST_STACKS - 1, False), (60, True)])
def test_too_few_stacks_tell_nothing(tmp_path, taken, is_found):
    assert (_found(tmp_path, WRAPPER, MUON, taken=taken) is not None) is is_found


def test_of_two_optimizers_of_the_scripts_the_tensors_are_those_of_the_one_that_is_named(tmp_path):
    events = Events(tmp_path)
    for number, params in ((0, 6000), (1, 60_000_000)):
        note = {"kind": "optimizer", "id": number, "framework": "torch", "type": "Own", "params": params, "tensors": 60}
        events.trainer.lines.append(note)
    events.loader(workers=1)
    muon, lion = (events.trainer.stack([LOOP, WRAPPER, method]) for method in (MUON, LION))
    for batch in range(60):
        now = batch * 20.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now, now + 0.5, batch)
        events.backward(now + 1, now + 5)
        for ms, stack, weight_ns in ((8, muon, 18e6), (15, lion, 1e6), (16, lion, 1e6)):
            events.trainer.event(fmt.STACK, at(now + ms), at(now + ms), stack, weight_ns, 0, thread=TRAINER_THREAD)
        events.update(now + 6, now + 14, optimizer=0)
        events.update(now + 14, now + 20, optimizer=1)

    found = measure_recording(events.timeline()).compute.own_update

    assert found is not None
    assert (found.name, found.elements) == ("Muon.step", 100)


@pytest.mark.parametrize(
    ("counted", "share"),
    [
        (((61, 60, 10), (66, 60, 90)), 1.0),
        (((61, 60, 10), (66, 1, 90)), 0.1),
        (((66, 1, 100),), 0.0),
        (((61, 29, 100),), 1.0),
        ((), None),
    ],
    ids=["tensor by tensor", "all at once, of lists", "one call", "for some of the tensors", "not counted"],
)
def test_how_much_of_it_runs_for_each_tensor_is_told_by_counted_lines(tmp_path, counted, share):
    file, function, first, _ = MUON
    rows = [{"file": file, "function": function, "first_line": first, "line": line, "count": n, "ns": ns} for line, n, ns in counted]
    rows.append({"file": file, "function": "train", "first_line": 1, "line": 5, "count": 900, "ns": 10_000})

    found = _found(tmp_path, WRAPPER, MUON, lines=rows)

    assert found is not None
    assert found.by_tensor_share == share
