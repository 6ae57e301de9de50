"""Steps of `fit` and calls of `train_on_batch`: a step is one call that trains, in which Keras may make several updates.

Where each operation is called by itself, as all are with PyTorch and those of eager loops with TensorFlow, calls of Keras' optimizer are
updates, as those of PyTorch's own are.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside._framework import FRAMEWORK, TENSORFLOW, TORCH, backend_name
from slowstep.frameworks.keras.inside._input import Input
from slowstep.frameworks.keras.inside.callbacks import MODULE
from slowstep.record.experiment.switch import Switch
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.updates import Updates
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class TrainBatches:
    """What is to be told of the calls that train."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.updates = recorder, Updates(recorder, FRAMEWORK)
        self._input = recorder.shared(Input)
        self._switch = recorder.shared(Switch) if recorder.experiment or recorder.levers else None
        # When a batch began, and its number, by the id() of its list of callbacks, or of its model: both live longer.
        self._begun: dict[int, tuple[int, int]] = {}
        recorder.forgetters.append(self._begun.clear)

    def begins(self, key: Any, batch: int) -> None:
        """All callbacks were told that a batch begins; `key` is their list, or the model that is called by the script."""
        self._input.begins()
        self._begun[id(key)] = now(), batch

    def ends(self, callbacks: Any, batch: int) -> None:
        """It has ended, and no callback knows yet. With several batches in a call the number is that of the last. Raises nothing."""
        ended_ns = now()
        # Not the property of that name: with JAX it would copy the parameters.
        model = vars(callbacks).get("_model")
        began_ns, first = self._begun.pop(id(callbacks), (0, 0))
        if FRAMEWORK.running is None or FRAMEWORK.running() is not callbacks:
            FRAMEWORK.running = weakref.ref(callbacks)
        if not began_ns or model is None or not self._recorder.live[0]:
            return
        try:
            # Eager fetches are seen one by one.
            FRAMEWORK.waits_inside = backend_name() == TENSORFLOW and not (self._input.is_counted or model.run_eagerly)
            began_ns = self._input.received_ns(began_ns)
            self.updates.called(model, began_ns, ended_ns, max(batch - first + 1, 1))
            self._input.count(ended_ns)
            self._switch_levers(model)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def leave(self, key: Any) -> int:
        """The call that trains is over, with a result or without. When it began."""
        return self._begun.pop(id(key), (0, 0))[0]

    def trained_on(self, model: Any, began_ns: int) -> None:
        """A call of `train_on_batch` has ended, which got its batch from the script. Raises nothing."""
        self.updates.called(model, began_ns, now())
        try:
            self._switch_levers(model)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _switch_levers(self, model: Any) -> None:
        if self._switch is not None:
            self._switch.updated(model)

    def is_eager_update(self) -> bool:
        """Whether a call of an optimizer just now is no part of a call that trains: neither of one that is compiled, nor of ours."""
        if self._begun or not sys.modules["tensorflow"].executing_eagerly():
            return False
        # Then the loop is the script's, and so are all of its steps.
        FRAMEWORK.has_optimizers = True
        return True

    def close(self) -> None:
        """Undo what a lever has changed for all of the training."""
        if self._switch is not None:
            self._switch.close()

    def all_end(self) -> None:
        """Read what was counted since the last time. Raises nothing."""
        try:
            if self._recorder.live[0]:
                self._input.count(now(), last=True)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)


def install(recorder: Recorder) -> Undo:
    """Replace what tells callbacks of batches, and `train_on_batch`. Raises Unfit where this version has none of it."""
    if backend_name() == TORCH:
        FRAMEWORK.has_optimizers = True
        return _eager_updates(Updates(recorder, FRAMEWORK), lambda: True)
    callback_list = find(sys.modules.get(MODULE), "CallbackList")
    batches = TrainBatches(recorder)
    begin, end = find(callback_list, "on_train_batch_begin"), find(callback_list, "on_train_batch_end")
    undos = [
        batches.close,
        replace(callback_list, "on_train_batch_begin", _after(begin, batches.begins)),
        replace(callback_list, "on_train_batch_end", _before(end, batches.ends)),
        replace(callback_list, "on_epoch_end", _before(find(callback_list, "on_epoch_end"), lambda *_: batches.all_end())),
    ]
    if backend_name() == TENSORFLOW:
        undos.append(_eager_updates(batches.updates, batches.is_eager_update))
    trainer = trainer_class("train_on_batch")
    undos.append(replace(trainer, "train_on_batch", _on_batch(find(trainer, "train_on_batch"), batches)))
    return all_of(undos)


def trainer_class(method: str) -> Any:
    """The class of all models that has a method of its own: with each framework that computes another one. Raises Unfit where none has."""
    model = find(sys.modules.get("keras"), "Model")
    find(model, method)
    return next(kind for kind in model.__mro__ if method in vars(kind))


def _after(original: Any, told: Any) -> Any:
    @functools.wraps(original)
    def method(self: Any, batch: int, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, batch, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            told(self, batch)

    return method


def _before(original: Any, told: Any) -> Any:
    @functools.wraps(original)
    def method(self: Any, batch: int, *args: Any, **kwargs: Any) -> Any:
        told(self, batch)
        try:
            return original(self, batch, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return method


def _on_batch(original: Any, batches: TrainBatches) -> Any:
    @functools.wraps(original)
    def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        batches.begins(self, 0)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            began_ns = batches.leave(self)
        batches.trained_on(self, began_ns)
        return result

    return train_on_batch


def _eager_updates(updates: Updates, is_update: Callable[[], bool]) -> Undo:
    """Have calls of Keras' optimizer stand for those of PyTorch's own."""
    optimizer = find(sys.modules.get("keras"), _OPTIMIZER)
    before, after = updates.build_hooks()
    original = find(optimizer, "apply")

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        told = is_update()
        if told:
            before(self, args, kwargs)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        if told:
            after(self, args, kwargs)
        return result

    return replace(optimizer, "apply", apply)


_OPTIMIZER: Final = "src.optimizers.base_optimizer.BaseOptimizer"
HOOK = Hook(name="keras_fit", module="keras", install=install)
