"""Steps of `fit` and calls of `train_on_batch`: a step is one call that trains, in which Keras may make several updates.

Where each operation is called by itself, as all are with PyTorch and those of eager loops with TensorFlow, calls of Keras' optimizer are
updates, as those of PyTorch's own are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside._asking import asking_of
from slowstep.frameworks.keras.inside._begun import Begun, BegunBatches
from slowstep.frameworks.keras.inside._capture import keras_capture
from slowstep.frameworks.keras.inside._framework import FRAMEWORK, JAX, TENSORFLOW, TORCH, backend_name
from slowstep.frameworks.keras.inside._input import Input
from slowstep.frameworks.keras.inside._told import batch_number, told_after, told_before
from slowstep.frameworks.keras.inside.callbacks import MODULE
from slowstep.frameworks.tensorflow.inside import _results
from slowstep.frameworks.tensorflow.inside._dispatches import Dispatches, runs_functions_eagerly
from slowstep.frameworks.tensorflow.inside._input.asked import AskedIterators
from slowstep.record.experiment.device_lead import Wait
from slowstep.record.experiment.switch import Switch, switch_of
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.updates import Updates
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def _wait_for(logs: Any) -> Wait | None:
    """What waits for the metrics that a call that trains has given, by what Keras computes with; None where it is not known.

    Raises what the framework that computes does.
    """
    if backend_name() == JAX:
        return functools.partial(_is_made, logs)
    return _results.wait_for(logs) if backend_name() == TENSORFLOW else None


def _is_made(logs: Any) -> bool:
    sys.modules["jax"].block_until_ready(logs)
    return True


class TrainBatches:
    """What is to be told of the calls that train."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.updates = recorder, Updates(recorder, FRAMEWORK, keras_capture(recorder))
        self._input = recorder.shared(Input)
        self._switch = switch_of(recorder)
        self._dispatches = recorder.shared(Dispatches) if backend_name() == TENSORFLOW else None
        self._asked = recorder.shared(AskedIterators)
        self._begun = BegunBatches()
        self._called = self._on_batch = self._eager = 0
        recorder.forgetters.append(self._begun.forget)

    def begins_in_fit(self, callbacks: Any, batch: int, loop: FrameType) -> None:
        """All callbacks of a list were told that a batch begins. Raises nothing."""
        running = FRAMEWORK.running
        if running is None or running() is not callbacks:
            _runs(self._recorder, self.updates, callbacks, loop)
        if self._switch is not None:
            self._asks(loop)
        self.begins(callbacks, batch, loop)

    def _asks(self, loop: FrameType) -> None:
        try:
            asking = asking_of(loop)
            if asking is not None and self._recorder.live[0]:
                self._asked.asks(asking)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def begins(self, key: Any, batch: int, loop: FrameType) -> None:
        """A batch begins; `key` is the list of callbacks, or the model that is called by the script. Raises nothing."""
        try:
            self._input.begins()
            if not self._called:
                # It is compiled in its first call, which may take minutes.
                self._recorder.page.say_begun()
            self._begun.begins(key, now(), batch, loop)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def ends(self, callbacks: Any, batch: int, logs: Any) -> None:
        """It has ended, and no callback knows yet. With several batches in a call the number is that of the last. Raises nothing."""
        ended_ns = now()
        begun = self._begun.ends(callbacks)
        try:
            # Not the property of that name: with JAX it would copy the parameters.
            model = vars(callbacks).get("_model")
            if begun is not None and model is not None and self._recorder.live[0]:
                self._trained(model, begun, ended_ns, max(batch - begun.batch + 1, 1))
                if self._switch is not None:
                    self._switch.updated(model, _wait_for(logs))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _trained(self, model: Any, begun: Begun, ended_ns: int, updates: int) -> None:
        is_counted = self._input.is_counted(model)
        # Eager fetches are seen one by one.
        hides = not (is_counted or model.run_eagerly) and backend_name() == TENSORFLOW
        self._called += 1
        self._keep_facts(hides_waits=hides)
        self.updates.called(model, self._input.received_ns(begun.at_ns), ended_ns, updates)
        self._look_at_operations(model, begun.at_ns)
        if is_counted:
            self._input.count(ended_ns)
        self._input.look(ended_ns)

    def _keep_facts(self, *, hides_waits: bool = False) -> None:
        """Say anew what is so of most updates. What is not known of some waits is not known of all: nothing shows which steps they were."""
        is_of_fit = not (self._eager or self._on_batch or FRAMEWORK.has_optimizers or FRAMEWORK.by_script)
        if is_of_fit and (FRAMEWORK.waits_inside or not hides_waits):
            # All calls so far were of `fit`, as it has been said: so it is at nearly each step.
            return
        waits_inside, has_optimizers = FRAMEWORK.waits_inside or hides_waits, FRAMEWORK.has_optimizers
        more, fewer = (self._called, self._eager) if has_optimizers else (self._eager, self._called)
        # Of two that are called in turns, now one is ahead and now the other.
        if more > 2 * fewer:
            has_optimizers = not has_optimizers
        found = waits_inside, has_optimizers, self._is_by_script()
        if self._recorder.live[0] and found != (FRAMEWORK.waits_inside, FRAMEWORK.has_optimizers, FRAMEWORK.by_script):
            FRAMEWORK.waits_inside, FRAMEWORK.has_optimizers, FRAMEWORK.by_script = found
            self.updates.note_facts()

    def _is_by_script(self) -> bool:
        """Whether a `fit` told what it reads, and most calls are none of its."""
        if FRAMEWORK.given.kind is None:
            return False
        fewer, more = sorted((self._on_batch, self._called - self._on_batch))
        return FRAMEWORK.by_script if more <= 2 * fewer else self._on_batch == more

    def leave(self, key: Any) -> int:
        """The call that trains is over, with a result or without. When it began."""
        begun = self._begun.ends(key)
        return 0 if begun is None else begun.at_ns

    def trained_on(self, model: Any, began_ns: int) -> None:
        """A call of `train_on_batch` has ended, which got its batch from the script. Raises nothing."""
        ended_ns = now()
        try:
            self._called += 1
            self._on_batch += 1
            self._keep_facts()
            self.updates.called(model, began_ns, ended_ns)
            self._look_at_operations(model, began_ns)
            if self._switch is not None:
                # It gives numbers: the device has made them.
                self._switch.updated(model, lambda: True)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def is_eager_update(self) -> bool:
        """Whether a call of an optimizer just now is no part of a call that trains: neither of one that is compiled, nor of ours. Then the
        loop is the script's. Raises nothing.
        """
        try:
            if not sys.modules["tensorflow"].executing_eagerly() or self._begun.is_any_open():
                return False
            self._eager += 1
            self._keep_facts()
            return True
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return False

    def _look_at_operations(self, model: Any, began_ns: int) -> None:
        """A call that trains has ended: where it runs operation by operation, these may have been timed."""
        if self._dispatches is not None and (model.run_eagerly or runs_functions_eagerly()):
            self._dispatches.updated(since_ns=began_ns)

    def eagerly_updated(self) -> None:
        """An optimizer has updated that a loop of the script's own has called eagerly. Raises nothing."""
        if self._dispatches is not None:
            self._dispatches.updated()

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
    """Replace what tells callbacks of batches, and what updates. Raises Unfit where this version has none of it."""
    FRAMEWORK.forget()
    return _install_eager(recorder) if backend_name() == TORCH else _install_compiled(recorder)


def _install_eager(recorder: Recorder) -> Undo:
    """Each operation is called by itself: calls of the optimizer are updates."""
    callback_list, optimizer = find(sys.modules.get(MODULE), "CallbackList"), find(sys.modules.get("keras"), _OPTIMIZER)
    begin, apply = find(callback_list, "on_train_batch_begin"), find(optimizer, "apply")
    FRAMEWORK.has_optimizers = True
    switch, updates = switch_of(recorder), Updates(recorder, FRAMEWORK, keras_capture(recorder))

    def begins(callbacks: Any, _: Any, __: Any, loop: FrameType) -> None:
        _runs(recorder, updates, callbacks, loop)

    return all_of(
        [
            FRAMEWORK.forget,
            *([] if switch is None else [switch.close]),
            replace(callback_list, "on_train_batch_begin", told_after(begin, begins)),
            replace(optimizer, "apply", _updated(recorder, apply, updates, lambda: True)),
        ]
    )


def _install_compiled(recorder: Recorder) -> Undo:
    """All of a step is one call, but in eager loops of TensorFlow."""
    callback_list, optimizer = find(sys.modules.get(MODULE), "CallbackList"), find(sys.modules.get("keras"), _OPTIMIZER)
    names = ("on_train_batch_begin", "on_train_batch_end", "on_epoch_end")
    begin, end, epoch_end = (find(callback_list, name) for name in names)
    trainer = trainer_class("train_on_batch")
    on_batch, apply = find(trainer, "train_on_batch"), find(optimizer, "apply")
    batches = TrainBatches(recorder)

    def begins(callbacks: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], loop: FrameType) -> None:
        batches.begins_in_fit(callbacks, batch_number(args, kwargs), loop)

    def ends(callbacks: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        batches.ends(callbacks, batch_number(args, kwargs), args[1] if len(args) > 1 else kwargs.get("logs"))

    undos = [
        FRAMEWORK.forget,
        batches.close,
        replace(callback_list, names[0], told_after(begin, begins)),
        replace(callback_list, names[1], told_before(end, ends)),
        replace(callback_list, names[2], told_before(epoch_end, lambda *_: batches.all_end())),
        replace(trainer, "train_on_batch", _on_batch(on_batch, batches)),
    ]
    if backend_name() == TENSORFLOW:
        undos.append(
            replace(optimizer, "apply", _updated(recorder, apply, batches.updates, batches.is_eager_update, batches.eagerly_updated))
        )
    return all_of(undos)


def _runs(recorder: Recorder, updates: Updates, callbacks: Any, loop: FrameType) -> None:
    """A `fit` is told of a batch: say anew what that changes, if what there was has been said. Raises nothing."""
    try:
        if FRAMEWORK.runs(callbacks, loop) and recorder.live[0] and updates.is_any_known():
            updates.note_facts()
    except Exception as error:  # the border: counted, and never raised into the training
        recorder.fault(error)


def trainer_class(method: str) -> Any:
    """The class of all models that has a method of its own: with each framework that computes another one. Raises Unfit where none has."""
    model = find(sys.modules.get("keras"), "Model")
    find(model, method)
    return next(kind for kind in model.__mro__ if method in vars(kind))


def _on_batch(original: Any, batches: TrainBatches) -> Any:
    @functools.wraps(original)
    def train_on_batch(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        batches.begins(self, 0, sys._getframe())
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


def _nothing() -> None:
    """Nobody else is to be told."""


def _updated(
    recorder: Recorder, original: Any, updates: Updates, is_update: Callable[[], bool], then: Callable[[], None] = _nothing
) -> Any:
    """`apply` of Keras' optimizer, whose calls stand for those of PyTorch's own where `is_update` says so; `then` is called after such a
    one. Neither raises anything.
    """
    before, after = updates.build_hooks()
    switch = switch_of(recorder)

    @functools.wraps(original)
    def apply(self: Any, /, *args: Any, **kwargs: Any) -> Any:
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
            then()
            if switch is not None:
                _tell_switch(recorder, switch, self)
        return result

    return apply


def _tell_switch(recorder: Recorder, switch: Switch, optimizer: Any) -> None:
    try:
        switch.updated(optimizer)
    except Exception as error:  # the border: counted, and never raised into the training
        recorder.fault(error)


_OPTIMIZER: Final = "src.optimizers.base_optimizer.BaseOptimizer"
HOOK = Hook(name="keras_fit", module="keras", install=install)
