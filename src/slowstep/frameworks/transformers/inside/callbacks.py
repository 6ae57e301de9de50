"""Callbacks of the Hugging Face Trainer, each by its name: `CallbackHandler.call_event` calls them one after the other."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, argument, find, replace
from slowstep.record.steps.callback_turns import CallbackTurns
from slowstep.record.steps.named_spans import Label, NamedSpans, place_of_method
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import CALLBACK, LOGGING, PROGRESS

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "transformers.trainer_callback"


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where this version has none."""
    handler = find(sys.modules[_MODULE], "CallbackHandler")
    original = find(handler, "call_event")
    spans = NamedSpans(recorder)
    labels: dict[tuple[type, str], Label] = {}
    recorder.forgetters.append(labels.clear)

    def label_of(callback: Any, event: str) -> Label:
        key = type(callback), event
        label = labels.get(key)
        if label is None:
            label = labels[key] = _label(callback, event)
        return label

    @functools.wraps(original)
    def call_event(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not recorder.live[0]:
            return original(self, *args, **kwargs)
        event = argument(args, kwargs, 0, "event")
        watched = CallbackTurns(recorder, self, lambda callback, begun_ns: spans.write(label_of(callback, event), begun_ns))
        try:
            return original(watched, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return replace(handler, "call_event", call_event)


def _label(callback: Any, event: str) -> Label:
    """By what it is: a progress bar, a logger, or any other callback."""
    name = type(callback).__name__
    prefix = CALLBACK
    if name in ("ProgressCallback", "NotebookProgressCallback", "PrinterCallback"):
        prefix = PROGRESS
    elif event == "on_log":
        prefix = LOGGING
    return Label(f"{prefix}{name}.{event}", "output", *place_of_method(callback, event))


HOOK = Hook(name="huggingface_callbacks", module=_MODULE, install=install)
