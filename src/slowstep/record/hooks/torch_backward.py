"""Backward passes: `torch.autograd.backward`, which `Tensor.backward` looks up at each call."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.format import BACKWARD, FAILED
from slowstep.record.hook import Hook, Undo, find, replace
from slowstep.record.recorder import now
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where torch has no such function."""
    module = sys.modules["torch.autograd"]
    original = find(module, "backward")
    event = recorder.event

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
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
