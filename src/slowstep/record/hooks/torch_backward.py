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


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where torch has no such function."""
    module = sys.modules["torch.autograd"]
    original = find(module, "backward")
    event = recorder.event
    until_measured = MEASURED_CALL

    def measure(tensors: Any) -> None:
        nonlocal until_measured
        until_measured -= 1
        if until_measured == 0:
            try:
                size = graph_size(tensors)
                if size is not None:
                    recorder.note({"kind": "graph", **size})
            except Exception as error:
                recorder.fault(error)

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if until_measured:
            measure(args[0] if args else kwargs.get("tensors"))
        t0 = now()
        try:
            result = original(*args, **kwargs)
        except BaseException:
            event(BACKWARD, t0, now(), 0, 0, 0, FAILED)
            hide_own_frames()
            raise
        event(BACKWARD, t0, now())
        return result

    return replace(module, "backward", backward)


HOOK = Hook(name="torch_backward", module="torch", install=install)
