"""Epochs of Keras: what a `fit` was given is known when it makes them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.record.hook import Hook, telling_of_new
from slowstep.record.patch import Undo, find, replace

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "keras.src.trainers.epoch_iterator"


def install(recorder: Recorder) -> Undo:
    """Replace what makes them, whatever computes. Raises Unfit where this version has something else."""
    epochs = find(sys.modules.get(_MODULE), "EpochIterator")
    return replace(epochs, "__init__", telling_of_new(recorder, find(epochs, "__init__"), _told))


def _told(epochs: Any) -> None:
    FRAMEWORK.given.made(vars(epochs).get("data_adapter"))


HOOK = Hook(name="keras_epochs", module="keras", install=install)
