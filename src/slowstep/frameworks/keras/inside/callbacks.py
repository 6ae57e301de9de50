"""Callbacks of Keras, each by its name: methods of `CallbackList` call them one after the other."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.attributes import in_class
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.steps.callback_turns import CallbackTurns
from slowstep.record.steps.named_spans import Label, NamedSpans, place_of_method
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import CALLBACK, CHECKPOINT, LOGGING, PROGRESS

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

MODULE: Final = "keras.src.callbacks.callback_list"
_CALLBACKS: Final = "keras.src.callbacks.callback"
_WHAT: Final = ("train", "test", "predict")
_EVENTS: Final = (
    *(f"on_{what}_{when}" for what in _WHAT for when in ("begin", "end", "batch_begin", "batch_end")),
    *("on_epoch_begin", "on_epoch_end"),
)
# The methods that are called: `on_train_batch_end` of a callback calls its `on_batch_end`.
_NAMES: Final = {event: (event, event.replace("_train_", "_")) for event in _EVENTS}
_SAVE: Final = ("ModelCheckpoint", "BackupAndRestore", "OrbaxCheckpoint")
_LOG: Final = ("TensorBoard", "CSVLogger", "RemoteMonitor", "History")


def install(recorder: Recorder) -> Undo:
    """Replace what calls them. Raises Unfit where this version has none of it."""
    callback_list = find(sys.modules.get(MODULE), "CallbackList")
    labels = TurnLabels()
    recorder.forgetters.append(labels.forget)
    undos = []
    for event in _EVENTS:
        # Where there are both the one with the underscore walks through them, and the other one may have another thread do it.
        name = next((name for name in (f"_{event}", event) if name in vars(callback_list)), None)
        if name is not None:
            undos.append(replace(callback_list, name, _recorded(recorder, vars(callback_list)[name], event, labels)))
    if not undos:
        raise Unfit(f"CallbackList has no {_EVENTS[0]}")
    return all_of(undos)


class TurnLabels:
    """What each callback's turn at an event is called."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, str], Label] = {}
        # By event the classes of callbacks that have nothing of their own for it.
        self._idle: dict[str, set[type]] = {}

    def forget(self) -> None:
        self._known.clear()
        self._idle.clear()

    def is_for_nobody(self, callback_list: Any, event: str) -> bool:
        """Whether none of the callbacks of a list has anything to do at an event: to time their turns would take longer. Raises nothing."""
        try:
            idle, (name, plain) = self._idle.setdefault(event, set()), _NAMES[event]
            for callback in callback_list.callbacks:
                kind = type(callback)
                if kind not in idle:
                    if not _is_inherited(kind, event):
                        return False
                    idle.add(kind)
                # `LambdaCallback` has its functions as attributes.
                own = callback.__dict__
                if name in own or plain in own:
                    return False
            return True
        except Exception:  # it is another kind of list: its turns are timed
            return False

    def of(self, callback: Any, event: str) -> Label:
        key = type(callback), event
        label = self._known.get(key)
        if label is None:
            label = self._known[key] = _label(callback, event)
        return label


def _recorded(recorder: Recorder, original: Any, event: str, labels: TurnLabels) -> Any:
    spans, is_each_batch = NamedSpans(recorder), "_batch_" in event

    def ended(callback: Any, begun_ns: int) -> None:
        spans.write(labels.of(callback, event), begun_ns)

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not recorder.live[0]:
            return original(self, *args, **kwargs)
        try:
            if is_each_batch and labels.is_for_nobody(self, event):
                return original(self, *args, **kwargs)
            return original(CallbackTurns(recorder, self, ended), *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return method


def _is_inherited(kind: type, event: str) -> bool:
    """Whether a class of callbacks has nothing of its own for an event, and is asked for its methods as any other class is."""
    base = getattr(sys.modules.get(_CALLBACKS), "Callback", None)
    methods = ("__getattribute__", *_NAMES[event])
    return base is not None and issubclass(kind, base) and all(in_class(kind, name) is in_class(base, name) for name in methods)


def _label(callback: Any, event: str) -> Label:
    """By what it is: a progress bar, what saves, a logger, or any other callback. `LambdaCallback` has its functions as attributes."""
    names = [kind.__name__ for kind in type(callback).__mro__]
    name = f"{names[0]}.{event}"
    place = place_of_method(callback, event)
    if any(kind in names for kind in _SAVE):
        return Label(CHECKPOINT + name, "store", *place)
    prefix = PROGRESS if "ProgbarLogger" in names else LOGGING if any(kind in names for kind in _LOG) else CALLBACK
    return Label(prefix + name, "output", *place)


HOOK = Hook(name="keras_callbacks", module="keras", install=install)
