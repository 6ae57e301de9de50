"""Evaluation, checkpoints and logging of the Hugging Face Trainer, and the metrics that the user computes in it."""

from __future__ import annotations

import functools
import sys
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from slowstep.record.attributes import qualified_name
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import Label, NamedSpans, place_of, timed
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import CALLBACK, CHECKPOINT, LOGGING, VALIDATION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "transformers.trainer"
# Not every version has all of them. Trainers of other libraries override `evaluate`, hence two names for it.
_METHODS = {
    "evaluate": Label(VALIDATION),
    "evaluation_loop": Label(VALIDATION),
    "_evaluate": Label(VALIDATION),
    "_save_checkpoint": Label(CHECKPOINT + "Trainer._save_checkpoint", "store"),
    "save_model": Label(CHECKPOINT + "Trainer.save_model", "store"),
    "log": Label(LOGGING + "Trainer.log"),
}


def install(recorder: Recorder) -> Undo:
    """Replace them. Raises Unfit where this version's Trainer has none of them."""
    trainer = find(sys.modules[_MODULE], "Trainer")
    undos = [
        replace(trainer, name, _recorded(recorder, vars(trainer)[name], label)) for name, label in _METHODS.items() if name in vars(trainer)
    ]
    if not undos:
        raise Unfit(f"Trainer has no {', '.join(_METHODS)}")
    if "evaluation_loop" in vars(trainer):
        undos.append(replace(trainer, "evaluation_loop", _metrics_recorded(recorder, trainer.evaluation_loop)))
    return all_of(undos)


def _recorded(recorder: Recorder, original: Any, label: Label) -> Any:
    return timed(recorder, original, lambda _: label)


def _metrics_recorded(recorder: Recorder, original: Any) -> Any:
    """`evaluation_loop`, with the user's `compute_metrics` recorded while it lasts."""
    spans = NamedSpans(recorder)

    @functools.wraps(original)
    def evaluation_loop(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        compute = vars(self).get("compute_metrics")
        if not callable(compute) or not recorder.live[0]:
            return original(self, *args, **kwargs)
        ours = self.compute_metrics = _timed_metrics(spans, compute)
        try:
            return original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            if vars(self).get("compute_metrics") is ours:
                self.compute_metrics = compute

    return evaluation_loop


def _timed_metrics(spans: NamedSpans, compute: Any) -> Any:
    label = Label(CALLBACK + qualified_name(compute), "output", *place_of(compute))
    # An object may compute what it is asked for, or raise.
    is_function = type(compute) in (FunctionType, MethodType)

    @functools.wraps(compute, assigned=functools.WRAPPER_ASSIGNMENTS if is_function else (), updated=())
    def compute_metrics(*args: Any, **kwargs: Any) -> Any:
        began_ns, failed = now(), True
        try:
            result = compute(*args, **kwargs)
            failed = False
            return result
        finally:
            spans.write(label, began_ns, failed=failed)

    return compute_metrics


HOOK = Hook(name="huggingface_trainer", module=_MODULE, install=install)
