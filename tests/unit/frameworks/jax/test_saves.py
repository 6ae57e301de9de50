"""Checkpoints by Orbax and flax are recorded, on modules that stand for theirs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from recorded import only
from slowstep.frameworks.jax.inside import saves
from slowstep.record.patch import all_of


class Checkpointer:
    def save(self, directory: Any, *args: Any, force: bool = False) -> None:
        Path(directory).mkdir()


class AsyncCheckpointer(Checkpointer):
    def save(self, directory: Any, *args: Any, force: bool = False) -> None:
        super().save(directory)


class PyTreeCheckpointer(Checkpointer):
    """Has no own one."""


class CheckpointManager:
    """Writes at every second step."""

    def __init__(self, place: Path) -> None:
        self._place, self._checkpointer = place, AsyncCheckpointer()

    def save(self, step: int, args: Any = None) -> bool:
        if step % 2:
            return False
        self._checkpointer.save(self._place / str(step))
        return True


def save_checkpoint(ckpt_dir: Any, target: Any, step: int) -> str:
    return f"{ckpt_dir}/{step}"


def _module(name: str, *holds: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update({each.__name__: each for each in holds})
    return module


def test_what_the_training_waits_for_is_recorded_once_and_only_where_something_is_written(recorder, tmp_path, monkeypatch):
    kinds = (Checkpointer, AsyncCheckpointer, PyTreeCheckpointer, CheckpointManager)
    before = [(kind, dict(vars(kind))) for kind in kinds]
    flax = _module("flax.training.checkpoints", save_checkpoint)
    for module in (_module("orbax.checkpoint", *kinds), flax):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    undo = all_of([hook.install(recorder) for hook in saves.HOOKS])
    manager = CheckpointManager(tmp_path)

    assert [manager.save(step) for step in range(4)] == [True, False, True, False]
    PyTreeCheckpointer().save(tmp_path / "tree")
    AsyncCheckpointer().save(directory=tmp_path / "aside")
    assert flax.save_checkpoint(str(tmp_path), {}, 7) == f"{tmp_path}/7"
    undo()
    Checkpointer().save(tmp_path / "unseen")
    recorder.stop("exit")

    found = only(tmp_path / "recording")
    texts = {note["id"]: note["text"] for note in found.noted("text")}
    assert [texts[record.b] for record in found.of("SAVE")] == [
        *("ocp.CheckpointManager.save", "ocp.CheckpointManager.save", "ocp.Checkpointer.save", "ocp.AsyncCheckpointer.save"),
        "flax.training.checkpoints.save_checkpoint",
    ]
    assert {record.a for record in found.of("SAVE")} == {-1}
    assert [(kind, dict(vars(kind))) for kind in kinds] == before
    assert flax.save_checkpoint is save_checkpoint
