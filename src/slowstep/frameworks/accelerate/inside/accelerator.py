"""Checkpoints and logging of `accelerate.Accelerator`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.steps.named_spans import Label, timed
from slowstep.stages import CHECKPOINT, LOGGING

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "accelerate.accelerator"
_METHODS = {
    "save_state": Label(CHECKPOINT + "Accelerator.save_state", "store"),
    "save_model": Label(CHECKPOINT + "Accelerator.save_model", "store"),
    "save": Label(CHECKPOINT + "Accelerator.save", "store"),
}


def install(recorder: Recorder) -> Undo:
    """Replace them. Raises Unfit where this version's Accelerator has none of them."""
    accelerator = find(sys.modules[_MODULE], "Accelerator")
    undos = [
        replace(accelerator, name, _recorded(recorder, vars(accelerator)[name], label))
        for name, label in _METHODS.items()
        if name in vars(accelerator)
    ]
    if "log" in vars(accelerator):
        undos.append(replace(accelerator, "log", timed(recorder, accelerator.log, _trackers)))
    if not undos:
        raise Unfit(f"Accelerator has no log, {', '.join(_METHODS)}")
    return all_of(undos)


def _recorded(recorder: Recorder, original: Any, label: Label) -> Any:
    return timed(recorder, original, lambda _: label)


def _trackers(accelerator: Any) -> Label:
    """By the trackers that it hands the values to."""
    names = [type(tracker).__name__ for tracker in getattr(accelerator, "trackers", ())]
    return Label(LOGGING + (", ".join(names) or "Accelerator.log"))


HOOK = Hook(name="accelerate_accelerator", module=_MODULE, install=install)
