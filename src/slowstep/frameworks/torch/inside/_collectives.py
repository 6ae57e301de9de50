"""Times what a rank does together with others: the collectives that it calls, and the CPU time of its thread inside backward.

Under DistributedDataParallel gradients are shared inside backward, by threads of the backend: the training thread blocks until they are
done. Its time without its CPU time and its run-queue delay is what it waited, whatever for.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._gradient_sync import SharedModels
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import BACKWARD_CPU, FAILED, SPAN
from slowstep.stages import STAGES

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

SHARING: Final = STAGES.index("gradient_sharing")
_UNKNOWN: Final = -1


def timed_collective(recorder: Recorder, original: Any, name: str) -> Any:
    """`original`, recorded as a span of gradient sharing; what it calls of its like belongs to it."""
    event, fault, live, local, clock = recorder.event, recorder.fault, recorder.live, recorder.local, now
    is_compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", _never)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        # A compiler that traces a script must find what it would find without us.
        if is_compiling():
            return original(*args, **kwargs)
        me = local.me
        if me.sharing or not live[0]:
            return original(*args, **kwargs)
        me.sharing, flags = True, FAILED
        t0 = clock()
        try:
            result = original(*args, **kwargs)
            flags = 0
            return result
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            t1 = clock()
            me.sharing = False
            try:
                event(SPAN, t0, t1, recorder.text_id(name), SHARING, 0, flags)
            except Exception as error:  # the border: counted, and never raised into the training
                fault(error)

    return collective


def _never() -> bool:
    return False


def timed_backward(recorder: Recorder, original: Any, is_initialized: Callable[[], bool]) -> Any:
    """`backward`, with what the thread used of a core and how long it waited for one: 5 us more, in a job of several ranks only."""
    event, fault, local, page, clock, cpu_ns = recorder.event, recorder.fault, recorder.local, recorder.page, now, time.thread_time_ns

    models = recorder.shared(SharedModels)

    def record(t0: int, t1: int, used_ns: int, before_ns: int | None, after_ns: int | None, sync: int) -> None:
        delay_ns = _UNKNOWN if before_ns is None or after_ns is None else after_ns - before_ns
        event(BACKWARD_CPU, t0, t1, used_ns, delay_ns, 0, 0, sync)

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if not page.recording:
            # Another rank has ended the recording: here it ends in the same step, not when somebody looks the next time.
            recorder.leave()
        if not recorder.live[0] or not is_initialized():
            return original(*args, **kwargs)
        me, sync = local.me, models.sync()
        t0, used_ns, delayed_ns = clock(), cpu_ns(), me.delay_ns()
        try:
            result = original(*args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        try:
            # In this order: asking for the CPU time brings the kernel's figures up to date.
            used_ns = cpu_ns() - used_ns
            record(t0, clock(), used_ns, delayed_ns, me.delay_ns(), sync)
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        return result

    return backward
