"""Where levers are switched. Installed only in sandboxed trainings or were asked for with a lever, and outermost, so that a
lever's own time is in no wait (hooks are installed in the order of their names: after `torch_dataloader`)."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.experiment.building import place_of_call
from slowstep.record.experiment.made_calls import MadeCalls
from slowstep.record.experiment.switch import Switch
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.batches import samples_in
from slowstep.record.timing.call_sites import call_site

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Hook requests, loaders' starts and updates. Raises Unfit where torch lacks one of them."""
    if not (recorder.experiment or recorder.levers):
        return all_of([])
    module = sys.modules["torch.utils.data.dataloader"]
    iterator_class, loader_class = find(module, "_BaseDataLoaderIter"), find(module, "DataLoader")
    next_batch, start = find(iterator_class, "__next__"), find(loader_class, "__iter__")
    build, optimizer_class = find(loader_class, "__init__"), find(sys.modules["torch.optim.optimizer"], "Optimizer")
    register_after = find(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook")
    switch = recorder.shared(Switch)
    build, build_optimizer = noted_build(recorder, switch, build), _noted_optimizer(recorder, optimizer_class)
    updated = _updated(recorder, switch)
    handle = register_after(updated)
    recorder.by_hand.append(lambda optimizer: updated(optimizer, (), {}))
    recorder.optimizer_undos.append(handle.remove)
    return all_of(
        [
            replace(iterator_class, "__next__", _switched_next(recorder, switch, next_batch)),
            replace(loader_class, "__iter__", noted_start(recorder, switch, start)),
            replace(loader_class, "__init__", build),
            replace(optimizer_class, "__init__", build_optimizer),
            switch.close,
        ]
    )


def _switched_next(recorder: Recorder, switch: Switch, original: Any) -> Any:
    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        try:
            switch.requested(self)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        asked_ns = now()
        try:
            batch = original(self)
        except StopIteration:
            received(self, None, now() - asked_ns)
            raise
        received(self, batch, now() - asked_ns)
        return batch

    def received(iterator: Any, batch: Any, waited_ns: int) -> None:
        try:
            # The end of an epoch holds none: a step in which nothing else is received has none, and that is known.
            switch.received(iterator, 0 if batch is None else samples_in(batch), waited_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return __next__


def noted_start(recorder: Recorder, switch: Switch, original: Any) -> Any:
    """The start of a loader's iterator, `original`: the switch hears of it."""

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        iterator = original(self)
        try:
            switch.training.started(self, iterator, FRAMEWORK)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        return iterator

    return __iter__


def noted_build(recorder: Recorder, switch: Switch, original: Any) -> Any:
    """The constructor of a loader, `original`: the switch hears where the script has called it."""
    calls, base = recorder.shared(MadeCalls), find(sys.modules["torch.utils.data.dataloader"], "DataLoader")

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            place = place_of_call(2)
            switch.built(self, place, FRAMEWORK.name)
            calls.loader(self, FRAMEWORK.dataset_of(self), call_site(2, original), place, base, FRAMEWORK.name)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return __init__


def _noted_optimizer(recorder: Recorder, base: Any) -> Any:
    """The constructor that all optimizers end with: where the script has called theirs is remembered."""
    original, calls = find(base, "__init__"), recorder.shared(MadeCalls)

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            calls.optimizer(self, call_site(2, original), base, FRAMEWORK.name)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return __init__


def _updated(recorder: Recorder, switch: Switch) -> Any:
    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            switch.updated(optimizer)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return after


HOOK = Hook(name="torch_switch", module="torch", install=install)
