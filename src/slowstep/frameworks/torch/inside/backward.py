"""Backward passes: `torch.autograd.backward`, which `Tensor.backward` looks up at each call."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._autograd.backwards import Backwards
from slowstep.frameworks.torch.inside._autograd.used_forwards import UsedForwards
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, argument, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import BACKWARD, FAILED

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


_PARAMETERS: Final = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where torch has no such function."""
    module = sys.modules["torch.autograd"]
    original = find(module, "backward")
    code = getattr(original, "__code__", None)
    takes_known = code is not None and code.co_varnames[: code.co_argcount] == _PARAMETERS
    watch = Backwards(recorder)
    recorder.chores.append(watch.want_graphs)
    put_back = replace(module, "backward", (_timed_known if takes_known else _timed)(recorder, watch, original))
    return all_of([lambda: recorder.chores.remove(watch.want_graphs), put_back])


def _timed_known(recorder: Recorder, watch: Backwards, original: Any) -> Any:
    """The same as `_timed` for the parameters that torch has had since 1.8: passing them by name spares a microsecond of a cold call."""
    event, local, clock, before_backwards = recorder.event, recorder.local, now, recorder.before_backwards
    forwards = recorder.shared(UsedForwards)
    open_forwards = forwards.open

    @functools.wraps(original)
    def backward(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> Any:
        watched = watch.on
        if watched:
            watch.begin(tensors)
        if open_forwards:
            forwards.passes(tensors)
        for told in before_backwards:
            told()
        t0 = clock()
        try:
            result = original(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
        except BaseException:  # passed on, without our frames; the call is recorded as failed
            event(BACKWARD, t0, clock(), 0, 0, 0, FAILED)
            watch.failed()
            hide_own_frames()
            raise
        t1 = clock()
        me = local.me
        me.backwards += 1
        # To be written together with the update.
        if me.held is not None and me.backward is None:
            me.backward = (t0, t1)
        else:
            event(BACKWARD, t0, t1, 0, 0, 0, 0, 0, me.thread)
        if watched:
            watch.end()
        return result

    return backward


def _timed(recorder: Recorder, watch: Backwards, original: Any) -> Any:
    event, local, clock, before_backwards = recorder.event, recorder.local, now, recorder.before_backwards
    forwards = recorder.shared(UsedForwards)
    open_forwards = forwards.open

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        tensors = argument(args, kwargs, 0, "tensors")
        if watch.on:
            watch.begin(tensors)
        if open_forwards:
            forwards.passes(tensors)
        for told in before_backwards:
            told()
        t0 = clock()
        try:
            result = original(*args, **kwargs)
        except BaseException:  # passed on, without our frames; the call is recorded as failed
            event(BACKWARD, t0, clock(), 0, 0, 0, FAILED)
            watch.failed()
            hide_own_frames()
            raise
        event(BACKWARD, t0, clock())
        local.me.backwards += 1
        if watch.on:
            watch.end()
        return result

    return backward


HOOK = Hook(name="torch_backward", module="torch", install=install)
