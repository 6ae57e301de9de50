"""Checkpoint writes of loops of the script's own: `tf.train.Checkpoint`, `tf.train.CheckpointManager` and `tf.saved_model.save`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.steps.saves import timed_save

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Methods of a class, of whose arguments the first is the checkpoint itself, by the class.
_METHODS: Final = {"train.Checkpoint": ("save", "write"), "train.CheckpointManager": ("save",)}
_SAVED_MODEL: Final = "tensorflow.python.saved_model.save"
_CALLED_BY: Final = ("saved_model", "compat.v2.saved_model")


def install(recorder: Recorder) -> Undo:
    """Replace them. Raises Unfit where this version lacks one."""
    tensorflow = sys.modules["tensorflow"]
    kinds = [(find(tensorflow, path), path, name) for path, names in _METHODS.items() for name in names]
    methods = [(kind, name, _method(recorder, find(kind, name), f"tf.{path}.{name}")) for kind, path, name in kinds]
    owners = [sys.modules[_SAVED_MODEL], *(find(tensorflow, path) for path in _CALLED_BY)]
    save = timed_save(recorder, find(owners[0], "save"), "tf.saved_model.save", position=1, keyword="export_dir")
    return all_of([replace(owner, name, new) for owner, name, new in [*methods, *((owner, "save", save) for owner in owners)]])


def _method(recorder: Recorder, original: Any, name: str) -> Any:
    # A manager that is asked for it writes nothing where its interval is not over, and says so.
    return timed_save(recorder, original, name, position=1, keyword="file_prefix", is_written=lambda result: result is not None)


HOOK = Hook(name="tensorflow_saves", module="tensorflow", install=install)
