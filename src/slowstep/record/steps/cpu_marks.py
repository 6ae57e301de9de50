"""Marks of a training thread's CPU time and run-queue delay, where a step's parts begin: after a wait and after an update."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slowstep.record.writing.format import CPU
from slowstep.record.writing.threads import ThreadState

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Two marks a step are 4 us: a thousandth of a step of 4 ms. Shorter steps are marked now and then, four times each 50 ms at first. With
# the fetch that is then measured, and other bookkeeping, that was some 2 us of the 12 that an empty step was longer by: after a hundred
# marked steps it becomes rarer, down to four of them in a second.
_ALWAYS_FROM_NS: Final = 4_000_000
SPARSE_NS: Final = 50_000_000
_SPARSEST_NS: Final = 250_000_000
_DENSE_STEPS: Final = 100

# `marking` of a thread: no mark now; every one, until the next update; the last one, at the next wait.
OFF, ON, LAST = 0, 1, 2


def build_marks(recorder: Recorder) -> tuple[Callable[[ThreadState, int], None], Callable[[ThreadState, int], bool]]:
    """Two functions to be called with the time, right after a wait (when `marking`) and right after an update (when due)."""
    event, cpu_ns = recorder.event, time.thread_time_ns

    def take(me: ThreadState, at_ns: int) -> None:
        # In this order: asking for the CPU time brings the kernel's figures up to date.
        used_ns = cpu_ns()
        delay_ns = me.delay_ns()
        if delay_ns is not None:
            event(CPU, at_ns, at_ns, used_ns, delay_ns)

    def mark_wait(me: ThreadState, at_ns: int) -> None:
        take(me, at_ns)
        if me.marking == LAST:
            me.marking = OFF

    def mark_update(me: ThreadState, at_ns: int) -> bool:
        """Returns whether the very next update must be marked too."""
        if me.step_ns >= _ALWAYS_FROM_NS or not me.step_ns:
            me.marking, me.quick = ON, None
            take(me, at_ns)
            return True
        if me.marking == ON:
            me.sparse_since_ns = me.sparse_since_ns or at_ns
            spacing_ns = (at_ns - me.sparse_since_ns) // _DENSE_STEPS
            me.marking, me.mark_due_ns = LAST, at_ns + min(max(spacing_ns, SPARSE_NS), _SPARSEST_NS)
            take(me, at_ns)
        elif at_ns >= me.mark_due_ns:
            # The next update is the end of the step that begins here.
            me.marking, me.quick = ON, None
            take(me, at_ns)
            return True
        return False

    return mark_wait, mark_update
