"""The loss of each call of Keras that trains: what its model's loss tracker has more of after the call than before.

It is read in runs that were asked for losses, one LOSS record a call; and of single steps of an experiment, which looks whether losses stay
finite. Of several updates in a call (`steps_per_execution`) their mean is known, and stands for the step that the call is. The tracker adds
up in 32 bits: of a loss late in a long epoch the last of seven digits are lost, in runs with a lever and without it alike.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside._framework import TELL_LOSSES, TENSORFLOW, backend_name
from slowstep.frameworks.keras.inside._told import batch_number, told_after, told_before
from slowstep.frameworks.keras.inside.callbacks import MODULE
from slowstep.frameworks.keras.inside.fit import trainer_class
from slowstep.frameworks.tensorflow.inside._framework import accelerators
from slowstep.record.experiment.losses import asked_losses
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_TRACKER: Final = "_loss_tracker"


@dataclass(frozen=True, slots=True)
class Tracked:
    """What a loss tracker has added up since it was reset: losses by their samples, and samples."""

    total: float
    count: float

    def since(self, before: Tracked) -> float | None:
        """The mean loss of what came after `before`; None where nothing did: a `train_step` with metrics of its own adds nothing."""
        count = self.count - before.count
        return (self.total - before.total) / count if count > 0 else None


# It is reset where a call of `train_on_batch` begins.
RESET: Final = Tracked(0.0, 0.0)


def tracked(model: Any) -> Tracked | None:
    """That of a model; None where it has none. Waits until the device has made it. Raises what the framework that computes does."""
    tracker = getattr(model, _TRACKER, None)
    total, count = getattr(tracker, "total", None), getattr(tracker, "count", None)
    return None if total is None or count is None else Tracked(_number(total), _number(count))


def _number(variable: Any) -> float:
    """That of all replicas, where there are several."""
    value = variable.value
    return float(value.read_value() if hasattr(value, "read_value") else value)


@dataclass(frozen=True, slots=True)
class _LossCall:
    """A call that has begun: with which batch, and what was tracked before it; None of a model without a tracker."""

    batch: int
    before: Tracked | None


class CallLosses:
    """Told where calls begin and end; a fault of ours is counted and costs one loss."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._records = recorder, asked_losses(recorder)
        # By the id() of their list of callbacks.
        self._begun: dict[int, _LossCall] = {}
        self._may_watch: bool | None = None if backend_name() == TENSORFLOW else False
        recorder.forgetters.append(self._begun.clear)

    def begins(self, callbacks: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], _: FrameType) -> None:
        """Callbacks were told that a batch begins. Raises nothing."""
        try:
            if self._is_looked_at():
                self._begun[id(callbacks)] = _LossCall(batch_number(args, kwargs), tracked(vars(callbacks).get("_model")))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def ends(self, callbacks: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """One has ended; with several batches in a call its number is that of the last. Raises nothing."""
        call = self._begun.pop(id(callbacks), None)
        try:
            if call is not None:
                model, updates = vars(callbacks).get("_model"), max(batch_number(args, kwargs) - call.batch + 1, 1)
                self._made(model, updates, call.before)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def trained_on(self, model: Any) -> None:
        """A call of `train_on_batch` has ended. Raises nothing."""
        try:
            if self._is_looked_at():
                self._made(model, 1, RESET)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _is_looked_at(self) -> bool:
        return self._recorder.live[0] and (self._records is not None or self._is_watched())

    def _is_watched(self) -> bool:
        """Whether somebody wants to know whether this step's loss is finite, and to say it nothing is waited for."""
        if not self._recorder.last_loss.is_wanted:
            return False
        if self._may_watch is None:
            self._may_watch = not accelerators()
        return self._may_watch

    def _made(self, model: Any, updates: int, before: Tracked | None) -> None:
        after = tracked(model)
        loss = None if before is None or after is None else after.since(before)
        if self._records is not None:
            self._records.write(loss or 0.0, 0 if loss is None else updates)
        if self._is_watched() and loss is not None:
            # What is added to a sum that is no number shows nothing until it is reset; where weights are numbers, losses are so again.
            is_told = before is None or math.isfinite(before.total)
            finite = math.isfinite(loss) if is_told else _are_finite(model.trainable_variables)
            self._recorder.last_loss.answer(lambda: finite)


def _are_finite(variables: Any) -> bool:
    tensorflow = sys.modules["tensorflow"]
    return all(bool(tensorflow.reduce_all(tensorflow.math.is_finite(variable.value))) for variable in variables)


def install(recorder: Recorder) -> Undo:
    """Hook what tells of the batches of `fit`, where losses are looked at. Raises Unfit where this version lacks it."""
    if not _are_looked_at(recorder):
        return all_of([])
    callback_list, losses = find(sys.modules.get(MODULE), "CallbackList"), recorder.shared(CallLosses)
    begin, end = find(callback_list, "on_train_batch_begin"), find(callback_list, "on_train_batch_end")
    if backend_name() == TENSORFLOW:
        # It sees that a loss is wanted where a batch begins: nothing is to be started for it.
        recorder.last_loss.starters.append(_nothing)
    return all_of(
        [
            replace(callback_list, "on_train_batch_begin", told_after(begin, losses.begins)),
            replace(callback_list, "on_train_batch_end", told_before(end, losses.ends)),
        ]
    )


def install_on_batch(recorder: Recorder) -> Undo:
    """Hook `train_on_batch`, where losses are looked at. Raises Unfit where this version lacks it."""
    if not _are_looked_at(recorder):
        return all_of([])
    trainer, losses = trainer_class("train_on_batch"), recorder.shared(CallLosses)
    return replace(trainer, "train_on_batch", _on_batch(find(trainer, "train_on_batch"), losses))


def _are_looked_at(recorder: Recorder) -> bool:
    return backend_name() in TELL_LOSSES and (recorder.experiment or asked_losses(recorder) is not None)


def _nothing() -> None:
    pass


def _on_batch(original: Any, losses: CallLosses) -> Any:
    @functools.wraps(original)
    def train_on_batch(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            result = original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        losses.trained_on(self)
        return result

    return train_on_batch


# By their names one is installed before `keras_fit`, whose method of the same name is called around this one, and the other after it, to be
# told first: where a step ends its loss is known.
HOOKS = (
    Hook(name="keras_batch_losses", module="keras", install=install_on_batch),
    Hook(name="keras_losses", module="keras", install=install),
)
