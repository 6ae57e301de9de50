"""Keras models and their weights are not written, whichever callback or loop asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from slowstep.levers._calls.checkpoints import CheckpointOff, FileFunction
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.targets import known_function
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Implementation

_SAVING: Final = "keras.src.saving.saving_api"
_ORBAX: Final = ("keras.src.callbacks.orbax_checkpoint", "OrbaxCheckpoint._save_checkpoint")
_INTO_MODEL: Final = "load_weights"


class KerasCheckpointOff(CheckpointOff):
    """What `Model.save` and `save_weights` call, also for `ModelCheckpoint` and `BackupAndRestore`; and what Orbax writes for Keras."""

    saves = (FileFunction(_SAVING, "save_model", 1, "filepath", "model"), FileFunction(_SAVING, "save_weights", 1, "filepath", "model"))
    loads = (FileFunction(_SAVING, "load_model", 0, "filepath"), FileFunction(_SAVING, _INTO_MODEL, 1, "filepath"))

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What writes files, and the callback that has no single one."""
        yield from super().replaced()
        if (function := known_function(*_ORBAX)) is not None:
            yield function, self.nothing(".".join(_ORBAX))

    def given(self, load: FileFunction, unwritten: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model; or into another one its weights, as they are by now."""
        if load.function != _INTO_MODEL:
            return unwritten
        model = args[0] if args else kwargs["model"]
        if model is not unwritten:
            model.set_weights(unwritten.get_weights())
        return None


IMPLEMENTATION = Implementation(lever=LEVER, prepare=KerasCheckpointOff.prepare)
