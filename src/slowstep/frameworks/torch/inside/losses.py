"""The loss of every step, in runs that were asked for it: `torch.autograd.backward`, `GradScaler.scale`, updates and input."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._scaling import when_scaling
from slowstep.record.experiment.losses import LossSum
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, argument, find, replace
from slowstep.record.writing.format import ENV_LOSSES

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Hook all of them, where the environment asks for it. Raises Unfit where torch lacks one."""
    if os.environ.get(ENV_LOSSES) != "1":
        return all_of([])
    autograd, iterator_class = sys.modules["torch.autograd"], find(sys.modules["torch.utils.data.dataloader"], "_BaseDataLoaderIter")
    scaler = find(sys.modules["torch.amp.grad_scaler"], "GradScaler")
    backward, next_batch = find(autograd, "backward"), find(iterator_class, "__next__")
    scale, may_step = find(scaler, "scale"), find(scaler, "_maybe_opt_step")
    register_after = find(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook")
    told = _Told(recorder)
    recorder.optimizer_undos.append(register_after(told.updated).remove)
    recorder.by_hand.append(lambda optimizer: told.updated(optimizer, (), {}))
    return all_of(
        [
            replace(autograd, "backward", told.backward(backward)),
            replace(iterator_class, "__next__", told.next_batch(next_batch)),
            replace(scaler, "scale", when_scaling(scale, told.scaled)),
            replace(scaler, "_maybe_opt_step", told.may_step(may_step)),
        ]
    )


class _Told:
    """Passes on what happens; a fault of ours is counted and costs one loss."""

    def __init__(self, recorder: Recorder) -> None:
        self._losses, self._fault = LossSum(recorder), recorder.fault
        self._updates = 0

    def updated(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._updates += 1
        self._tell(self._losses.updated, optimizer)

    def backward(self, original: Any) -> Any:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._tell(self._losses.enter, argument(args, kwargs, 0, "tensors"))
            try:
                return original(*args, **kwargs)
            finally:
                self._losses.leave()

        return backward

    def next_batch(self, original: Any) -> Any:
        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            self._tell(self._losses.received, batch)
            return batch

        return __next__

    def scaled(self, scaler: Any, outputs: Any) -> None:
        self._tell(lambda: self._losses.scaled(outputs, float(scaler.get_scale())))

    def may_step(self, original: Any) -> Any:
        @functools.wraps(original)
        def _maybe_opt_step(scaler: Any, /, *args: Any, **kwargs: Any) -> Any:
            before = self._updates
            result = original(scaler, *args, **kwargs)
            if self._updates == before:
                self._tell(self._losses.updated, argument(args, kwargs, 0, "optimizer"))
            return result

        return _maybe_opt_step

    def _tell(self, act: Any, *args: Any) -> None:
        try:
            act(*args)
        except Exception as error:  # the border: counted, and never raised into the training
            self._fault(error)


HOOK = Hook(name="torch_losses", module="torch", install=install)
