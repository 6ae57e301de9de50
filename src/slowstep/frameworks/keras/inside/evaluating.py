"""Validation, predictions and saved models of Keras, by the methods of a model that do them."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside.fit import trainer_class
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.steps.named_spans import Label, timed
from slowstep.record.steps.saves import timed_save
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import CALLBACK, VALIDATION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_METHODS: Final = {"evaluate": Label(VALIDATION), "predict": Label(CALLBACK + "Model.predict")}
_SAVES: Final = ("save", "save_weights")


def install(recorder: Recorder) -> Undo:
    """Replace them. Raises Unfit where this version's Model lacks one."""
    model = find(sys.modules.get("keras"), "Model")
    holders = {name: trainer_class(name) for name in _METHODS}
    # Of the arguments the first is the model itself.
    saved = {name: timed_save(recorder, find(model, name), f"Model.{name}", position=1, keyword="filepath") for name in _SAVES}
    named = {name: _named(recorder, find(holder, name), _METHODS[name]) for name, holder in holders.items()}
    return all_of(
        [
            *(replace(holder, name, named[name]) for name, holder in holders.items()),
            *(replace(model, name, method) for name, method in saved.items()),
        ]
    )


def _named(recorder: Recorder, original: Any, label: Label) -> Any:
    return timed(recorder, _judging(recorder, original), lambda _: label)


def _judging(recorder: Recorder, original: Any) -> Any:
    """`original`, whose input is not the training's."""

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        me = recorder.local.me
        before = me.judging
        try:
            me.judging = before + 1
            return original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            me.judging = before

    return method


HOOK = Hook(name="keras_model", module="keras", install=install)
