"""Validation, predictions and saved models of Keras, by the methods of a model that do them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from slowstep.frameworks.keras.inside.fit import trainer_class
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.steps.named_spans import Label, timed
from slowstep.record.steps.saves import timed_save
from slowstep.stages import CALLBACK, VALIDATION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_METHODS: Final = {"evaluate": Label(VALIDATION), "predict": Label(CALLBACK + "Model.predict")}
_SAVES: Final = ("save", "save_weights")


def install(recorder: Recorder) -> Undo:
    """Replace them. Raises Unfit where this version's Model lacks one."""
    undos = [_named(recorder, name, label) for name, label in _METHODS.items()]
    model = find(sys.modules.get("keras"), "Model")
    # Of the arguments the first is the model itself.
    saved = {name: timed_save(recorder, find(model, name), f"Model.{name}", position=1, keyword="filepath") for name in _SAVES}
    return all_of([*undos, *(replace(model, name, method) for name, method in saved.items())])


def _named(recorder: Recorder, name: str, label: Label) -> Undo:
    holder = trainer_class(name)
    return replace(holder, name, timed(recorder, find(holder, name), lambda _: label))


HOOK = Hook(name="keras_model", module="keras", install=install)
