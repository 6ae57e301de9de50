"""The parts of a start-up."""

from __future__ import annotations

from made_events import Events, at
from slowstep.analyses.over_time import startup
from slowstep.analyses.over_time.startup import find_startup
from slowstep.analyses.over_time.startup_functions import NOWHERE, Held
from slowstep.analyses.over_time.startup_parts import StartupKind, StartupPart
from slowstep.analyses.steps.trainer import find_trainer

MS = 1_000_000


def test_what_is_imported_before_and_after_torch_is_known_is_one_part(tmp_path, monkeypatch):
    """The first use of an optimizer imports more of torch."""
    events = Events(tmp_path)
    events.launcher.lines[-1] |= {"started_ns": at(-100)}
    events.trainer.lines.append({"kind": "startup", "import_began_ns": at(-80), "activated_ns": at(-30)})
    for k in range(4):
        events.backward(10 * k + 2, 10 * k + 4)
        events.update(10 * k + 5, 10 * k + 6)
    monkeypatch.setattr(startup, "divide_startup", lambda *_: {Held(StartupKind.IMPORT, "torch"): 0.5, NOWHERE: 0.5})
    timeline = events.timeline()

    found = find_startup(timeline, find_trainer(timeline), 10.0 * MS)

    assert found is not None
    parts = {(part.kind, part.of): part.ns / MS for part in found.parts}
    assert len(parts) == len(found.parts)
    assert parts[StartupKind.IMPORT, "torch"] == 50 + 16
    assert found.ns / MS == 106


def test_what_compiling_takes_of_the_first_step_is_a_part_of_its_own(tmp_path):
    events = Events(tmp_path)
    events.launcher.lines[-1] |= {"started_ns": at(-100)}
    events.wait(0, 1)
    events.span(2, 72, "torch.compile at work", "compute")
    events.backward(75, 85)
    events.update(85, 90)
    for k in range(4):
        events.step(90 + 10 * k)
    timeline = events.timeline()

    found = find_startup(timeline, find_trainer(timeline), 10.0 * MS)

    assert found is not None
    parts = {part.kind: part.ns / MS for part in found.parts}
    assert (parts[StartupKind.COMPILING], parts[StartupKind.FIRST_STEP]) == (70, 19)


def test_every_kind_of_a_part_has_words():
    named = [StartupPart(kind=kind, of="that", ns=1).name for kind in StartupKind]

    assert len(set(named)) == len(StartupKind)
    assert StartupPart(kind=StartupKind.IMPORT, ns=1).name not in named
