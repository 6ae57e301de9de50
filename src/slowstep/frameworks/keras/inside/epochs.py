"""Epochs of Keras: what a `fit` was given is known when it makes them."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "keras.src.trainers.epoch_iterator"


def install(recorder: Recorder) -> Undo:
    """Replace what makes them, whatever computes. Raises Unfit where this version has something else."""
    epochs = find(sys.modules.get(_MODULE), "EpochIterator")
    original = find(epochs, "__init__")

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        FRAMEWORK.given.made(vars(self).get("data_adapter"))

    return replace(epochs, "__init__", __init__)


HOOK = Hook(name="keras_epochs", module="keras", install=install)
