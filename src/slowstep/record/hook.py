"""What a hook is: one thing of a framework that is recorded, installed from outside and taken away again without a trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from slowstep.record.patch import Undo
from slowstep.record.recorder import Recorder, now
from slowstep.record.timing.tracebacks import hide_own_frames

# What stands in for the start of a loader whose waits are recorded bears this mark: `slowstep.steps` does not record them twice.
RECORDS_WAITS: Final = "_slowstep_records_waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One thing to hook. `install` runs once `module` has been imported; it raises Unfit, or returns what undoes it completely."""

    name: str
    module: str
    install: Callable[[Recorder], Undo]


def reporting_new(recorder: Recorder, original: Any, told: Callable[[Any], None]) -> Any:
    """The constructor of a class, `original`, after which `told` is called with what was made; what that raises is counted."""
    return timing_new(recorder, original, lambda made, _: told(made))


def timing_new(recorder: Recorder, original: Any, told: Callable[[Any, int], None]) -> Any:
    """The same; `told` is called too with when it began to be made."""

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        began_ns = now()
        try:
            original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        try:
            told(self, began_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return __init__
