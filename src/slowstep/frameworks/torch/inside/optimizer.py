"""Calls of optimizers: torch's global step hooks, updates that GradScaler leaves out, what optimizers are given, and events of the device
behind updates.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._answers.device_events import DeviceEvents
from slowstep.frameworks.torch.inside._autograd.known_optimizers import KnownOptimizers
from slowstep.frameworks.torch.inside._capture import torch_capture
from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, argument, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.updates import Updates
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Register both hooks; the recorder itself takes them away, when no thread walks them. Raises Unfit where torch has no such hooks."""
    module = sys.modules.get("torch.optim.optimizer")
    if module is None:
        raise Unfit("torch.optim is not imported with torch")
    # Both names are asked for first, so that nothing is registered when one is missing.
    register_before = find(module, "register_optimizer_step_pre_hook")
    register_after = find(module, "register_optimizer_step_post_hook")
    profiler = recorder.shared(torch_capture)
    updates = Updates(recorder, FRAMEWORK, profiler)
    before, after = updates.build_hooks()
    handles = [register_before(before), register_after(after)]
    recorder.optimizer_undos += [handle.remove for handle in handles]
    recorder.by_hand.append(updates.build_by_hand(before, after))
    undos: list[Undo] = [] if profiler is None else [profiler.unwatch]
    if hasattr(module.Optimizer, "add_param_group"):
        undos.append(replace(module.Optimizer, "add_param_group", _told_of_group(recorder, module.Optimizer.add_param_group)))
    scaler: Any = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
    if hasattr(scaler, "_maybe_opt_step"):
        undos.append(replace(scaler, "_maybe_opt_step", _scaled_step(recorder, updates, scaler._maybe_opt_step)))
    return all_of(undos)


def _scaled_step(recorder: Recorder, updates: Updates, original: Any) -> Any:
    """GradScaler's decision whether to call `step` at all: when it does not, that is an update left out."""
    fault, live = recorder.fault, recorder.live

    @functools.wraps(original)
    def _maybe_opt_step(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        optimizer = argument(args, kwargs, 0, "optimizer")
        t0, before = now(), updates.count(optimizer)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        try:
            if updates.count(optimizer) == before and live[0]:
                updates.skipped(optimizer, t0, now())
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        return result

    return _maybe_opt_step


def _told_of_group(recorder: Recorder, original: Any) -> Any:
    """What gives an optimizer its parameters, when it is built and afterwards."""
    fault, known = recorder.fault, recorder.shared(KnownOptimizers)

    @functools.wraps(original)
    def add_param_group(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            known.given(self)
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        try:
            return original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return add_param_group


def install_events(recorder: Recorder) -> Undo:
    """Record events where stacks are taken and torch is built for CUDA. Raises Unfit where torch has no such hooks."""
    torch: Any = sys.modules["torch"]
    if recorder.level < 1 or not getattr(torch.version, "cuda", None):
        return all_of([])
    register_after = find(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook")
    find(torch, "compiler.is_compiling")
    events = DeviceEvents(recorder, torch)
    recorder.optimizer_undos.append(register_after(events.updated).remove)
    recorder.forgetters.append(events.forget)
    recorder.device_probes.append(events.is_idle)
    told = (
        (recorder.before_waits, events.requested),
        (recorder.after_waits, events.received),
        (recorder.before_forwards, events.received),
        (recorder.before_backwards, events.is_passed_back),
    )
    for callers, called in told:
        callers.append(called)
    undos: list[Undo] = [functools.partial(callers.remove, called) for callers, called in told]
    return all_of([*undos, lambda: recorder.device_probes.remove(events.is_idle), events.forget])


HOOKS = (
    Hook(name="torch_optimizer", module="torch", install=install),
    # Behind the other one, by its name: an event is no part of the update.
    Hook(name="torch_update_events", module="torch", install=install_events),
)
