"""That Lightning's trainer was interrupted: it catches KeyboardInterrupt, and leaves with the exit code 1 of an error."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def interrupt_hook(package: str, name: str) -> Hook:
    """What Lightning does once an exception has ended a training; of `lightning.pytorch` and `pytorch_lightning` each has its own."""
    module = f"{package}.trainer.call"

    def install(recorder: Recorder) -> Undo:
        """Replace `_interrupt`. Raises Unfit where this version has none."""
        call = sys.modules[module]
        return replace(call, "_interrupt", _noted(recorder, find(call, "_interrupt")))

    return Hook(name=name, module=module, install=install)


def _noted(recorder: Recorder, original: Any) -> Any:
    @functools.wraps(original)
    def interrupt(trainer: Any, exception: BaseException) -> Any:
        if isinstance(exception, KeyboardInterrupt) and recorder.live[0]:
            recorder.note({"kind": "interrupted", "by": type(exception).__name__})
        try:
            return original(trainer, exception)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return interrupt


HOOKS = (interrupt_hook("lightning.pytorch", "lightning_interrupt"), interrupt_hook("pytorch_lightning", "pytorch_lightning_interrupt"))
