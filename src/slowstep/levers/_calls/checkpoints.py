"""Functions that write checkpoints, left out: the file is there, and empty."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.intercept import intercept
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers.checkpoint_off import HARMS
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.patch import Undo, all_of
from slowstep.record.writing.format import ENV_UNPROTECTED

# What was to be written is kept of the last files only: it may be a copy of the model.
_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class FileFunction:
    """A function that writes or reads a file, whose path is the parameter `path`, the one at `place`.

    `written` is the first parameter, which is kept for whoever reads the file; None of a method that saves what its object holds.
    """

    module: str
    function: str
    place: int
    path: str
    written: str | None = None


class CheckpointOff(CallsOff):
    """Leaves out what writes checkpoints: `saves`, whose files `loads` may read. Raises NotApplicable where empty files would stay."""

    saves: tuple[FileFunction, ...] = ()
    loads: tuple[FileFunction, ...] = ()

    def __init__(self, training: Training, every: int) -> None:
        if os.environ.get(ENV_UNPROTECTED) == "1":
            raise NotApplicable(f"{HARMS}: no sandbox holds them back here")
        super().__init__(training, every)
        # By device and number of the empty file, which stay when it is renamed.
        self._unwritten: dict[tuple[int, int], Any] = {}
        self._empty_files = self._loads = 0
        self._loading: list[Undo] = []

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What of it the script has imported so far."""
        for save in self.saves:
            if (function := known_function(save.module, save.function)) is not None:
                yield function, self._save(save)

    def on(self) -> None:
        """Leave them out. Loads are looked at from now on until all is removed: of an empty file nobody can load."""
        super().on()
        if not self._loading:
            found = [(known_function(load.module, load.function), load) for load in self.loads]
            self._loading += [intercept(function, self._load(load)) for function, load in found if function is not None]

    def remove(self) -> None:
        """Let go of what was to be written."""
        super().remove()
        all_of(self._loading)()
        self._unwritten.clear()

    def facts(self) -> Mapping[str, Any]:
        """Empty files that were made, and loads that were given what was to be written."""
        return {**super().facts(), "empty_files": self._empty_files, "loads": self._loads}

    def given(self, load: FileFunction, unwritten: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call is given that loads what was not written."""
        return unwritten

    def _save(self, save: FileFunction) -> Handler:
        def handler(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            target = _path(save, args, kwargs)
            if not self.leaves_out() or not self._stand_in(target, makes_folder=save.written is None):
                return call(*args, **kwargs)
            if save.written is not None and (key := _empty(target)):
                self._keep(key, args[0] if args else kwargs.get(save.written))
            self.count(f"{save.module}.{save.function}")
            return None

        return handler

    def _load(self, load: FileFunction) -> Handler:
        def handler(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            key = _empty(_path(load, args, kwargs))
            if key is None or key not in self._unwritten:
                return call(*args, **kwargs)
            self._loads += 1
            return self.given(load, self._unwritten[key], args, kwargs)

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


def _path(function: FileFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[function.place] if len(args) > function.place else kwargs.get(function.path)


def _empty(target: Any) -> tuple[int, int] | None:
    """Device and number of an empty file; None for anything else."""
    if not isinstance(target, (str, os.PathLike)):
        return None
    try:
        found = os.stat(target)
    except (OSError, ValueError):
        return None
    return None if found.st_size else (found.st_dev, found.st_ino)
