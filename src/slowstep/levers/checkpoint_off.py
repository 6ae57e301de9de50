"""Checkpoints are not written: the file is there, and empty.

What it changes:
    torch.save, safetensors' save_file, Lightning's Trainer.save_checkpoint and the checkpoints of Hugging Face's Trainer are left out.
    Where a path was to be written and nothing is there yet, an empty file is made, so that it can be renamed, listed or deleted; what is
    there already stays as it is. File objects get nothing. Where the script loads such an empty file, with torch.load or safetensors'
    load_file, it gets the very object that was to be written, with the values that it has by then (facts.loads). With `:every=k` one of k
    steps with checkpoints writes them.
What it answers:
    What the training would gain if checkpoints took no time on the training thread, or were written k times as rarely.
When it has no meaning:
    For checkpoints that are written by other means (pickle, numpy, torch.distributed.checkpoint): use stub=MODULE:FUNCTION. What a script
    does to prepare one, such as copying the state to memory, is done still. Without a sandbox that holds back all writes (`slowstep run
    --with`, `slowstep prove --allow-writes`) it is refused: an empty file that the script then renames would take the place of a checkpoint
    of the user's.
How it is undone:
    The functions are the same objects all the time, and get their own code back. The empty files stay, for the script may look for them:
    trainings under experiment write into a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.intercept import intercept
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers._calls.trainers import LIGHTNING, decision
from slowstep.record.experiment.lever import Change, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.patch import Undo, all_of
from slowstep.record.writing.format import ENV_UNPROTECTED

HARMS: Final = "the empty files that it leaves could take the place of your own checkpoints"
# What was to be written is kept of the last files only: it may be a copy of the model.
_KEPT: Final = 4
# Module, function, place and name of the parameter that says where to write.
_SAVES: Final = (
    ("torch.serialization", "save", 1, "f"),
    ("safetensors.torch", "save_file", 1, "filename"),
    *((f"{package}.trainer.trainer", "Trainer.save_checkpoint", 1, "filepath") for package in LIGHTNING),
)
_OBJECTS: Final = {"f": "obj", "filename": "tensors"}
_LOADS: Final = (("torch.serialization", "load", 0, "f"), ("safetensors.torch", "load_file", 0, "filename"))


class CheckpointOff(CallsOff):
    """Leaves out what writes checkpoints."""

    def __init__(self, training: Training, every: int) -> None:
        super().__init__(training, every)
        # By device and number of the empty file, which stay when it is renamed.
        self._unwritten: dict[tuple[int, int], Any] = {}
        self._empty_files = self._loads = 0
        self._loading: list[Undo] = []

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What of it the script has imported so far."""
        yield from decision(self, "should_save", "Trainer._save_checkpoint")
        for module, path, place, name in _SAVES:
            if (function := known_function(module, path)) is not None:
                yield function, self._save(f"{module}.{path}", place, name)

    def on(self) -> None:
        """Leave them out. Loads are looked at from now on until all is removed: of an empty file nobody can load."""
        super().on()
        if not self._loading:
            found = [(known_function(module, path), place, name) for module, path, place, name in _LOADS]
            self._loading += [intercept(function, self._load(place, name)) for function, place, name in found if function is not None]

    def remove(self) -> None:
        """Let go of what was to be written."""
        super().remove()
        all_of(self._loading)()
        self._unwritten.clear()

    def facts(self) -> Mapping[str, Any]:
        """Empty files that were made, and loads that were given what was to be written."""
        return {**super().facts(), "empty_files": self._empty_files, "loads": self._loads}

    def _save(self, said: str, place: int, name: str) -> Handler:
        def handler(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            target = args[place] if len(args) > place else kwargs.get(name)
            is_method = "Trainer." in said
            if not self.leaves_out() or not self._stand_in(target, makes_folder=is_method):
                return call(*args, **kwargs)
            if not is_method and (key := _empty(target)):
                self._keep(key, args[0] if args else kwargs.get(_OBJECTS[name]))
            self.count(said)
            return None

        return handler

    def _load(self, place: int, name: str) -> Handler:
        def handler(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            key = _empty(args[place] if len(args) > place else kwargs.get(name))
            if key is None or key not in self._unwritten:
                return call(*args, **kwargs)
            self._loads += 1
            return self._unwritten[key]

        return handler

    def _stand_in(self, target: Any, *, makes_folder: bool) -> bool:
        """Whether the script finds what it looks for without the file being written."""
        if not isinstance(target, (str, os.PathLike)):
            return True
        path = os.fspath(target)
        try:
            if makes_folder:
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            if not os.path.lexists(path):
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
                self._empty_files += 1
        except (OSError, ValueError):
            # Let the script meet what it would have met.
            return False
        return True

    def _keep(self, key: tuple[int, int], unwritten: Any) -> None:
        self._unwritten.pop(key, None)
        self._unwritten[key] = unwritten
        if len(self._unwritten) > _KEPT:
            self._unwritten.pop(next(iter(self._unwritten)))


def _empty(target: Any) -> tuple[int, int] | None:
    """Device and number of an empty file; None for anything else."""
    if not isinstance(target, (str, os.PathLike)):
        return None
    try:
        found = os.stat(target)
    except (OSError, ValueError):
        return None
    return None if found.st_size else (found.st_dev, found.st_ino)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is written, nothing is left out, and the effect is 0.

    Raises NotApplicable where the files that it leaves stay.
    """
    if os.environ.get(ENV_UNPROTECTED) == "1":
        raise NotApplicable(f"{HARMS}: no sandbox holds them back here")
    return CheckpointOff(training, spec.every)


LEVER = Lever(name="checkpoint-off", every=True, long_steps="its own", prepare=prepare, harms=HARMS)
