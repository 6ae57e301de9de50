"""Backward passes: `torch.autograd.backward`, which `Tensor.backward` looks up at each call."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.format import BACKWARD, FAILED
from slowstep.record.graph import graph_size
from slowstep.record.hook import Hook, Undo, find, replace
from slowstep.record.recorder import now
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


# The first calls may be a trial; the third is a step like the others, and still in the warm-up.
MEASURED_CALL: Final = 3
_PARAMETERS: Final = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where torch has no such function."""
    module = sys.modules["torch.autograd"]
    original = find(module, "backward")
    code = getattr(original, "__code__", None)
    takes_known = code is not None and code.co_varnames[: code.co_argcount] == _PARAMETERS
    return replace(module, "backward", (_timed_known if takes_known else _timed)(recorder, original))


def _timed_known(recorder: Recorder, original: Any) -> Any:
    """The same as `_timed` for the parameters that torch has had since 1.8: passing them by name spares a microsecond of a cold call."""
    event, local, clock, first = recorder.event, recorder.local, now, _FirstCalls(recorder)

    @functools.wraps(original)
    def backward(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> Any:
        if first.left:
            first(tensors)
        t0 = clock()
        try:
            result = original(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
        except BaseException:  # passed on, without our frames; the call is recorded as failed
            event(BACKWARD, t0, clock(), 0, 0, 0, FAILED)
            hide_own_frames()
            raise
        t1 = clock()
        me = local.me
        # To be written together with the update.
        if me.held is not None and not me.backward_ns:
            me.backward_ns, me.backward_took_ns = t0, t1 - t0
        else:
            event(BACKWARD, t0, t1, 0, 0, 0, 0, 0, me.thread)
        return result

    return backward


def _timed(recorder: Recorder, original: Any) -> Any:
    event, clock, first = recorder.event, now, _FirstCalls(recorder)

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if first.left:
            first(args[0] if args else kwargs.get("tensors"))
        t0 = clock()
        try:
            result = original(*args, **kwargs)
        except BaseException:  # passed on, without our frames; the call is recorded as failed
            event(BACKWARD, t0, clock(), 0, 0, 0, FAILED)
            hide_own_frames()
            raise
        event(BACKWARD, t0, clock())
        return result

    return backward


class _FirstCalls:
    """Tells the launcher when the first call is over (the second begins: no call costs more for it), and notes the size of the graph
    that one call goes through.
    """

    __slots__ = ("_recorder", "left")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.left = MEASURED_CALL

    def __call__(self, tensors: Any) -> None:
        self.left -= 1
        try:
            if self.left == MEASURED_CALL - 2:
                self._recorder.page.publish_backward(now())
            if not self.left:
                self._note_size(tensors)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _note_size(self, tensors: Any) -> None:
        size = graph_size(tensors)
        if size is not None:
            self._recorder.note({"kind": "graph", **size})


HOOK = Hook(name="torch_backward", module="torch", install=install)
