"""Marks of a training thread's CPU time and run-queue delay, where a step's parts begin: after each wait and each update."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slowstep.record.format import CPU

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

Mark = Callable[[int], None]

# Two marks a step are 4 us: a thousandth of a step of 4 ms. Shorter ones are marked one in n, four marks each.
_ALWAYS_FROM_NS: Final = 4_000_000
_SPARSE_NS: Final = 8_000_000

# `marking` of a thread: no mark now, every one until the next update, the last one at the next wait.
_OFF, _ON, _LAST = 0, 1, 2


def build_marks(recorder: Recorder) -> tuple[Mark, Mark]:
    """Two functions, to be called with the time right after a wait and right after an update."""
    event, local, cpu_ns = recorder.event, recorder.local, time.thread_time_ns

    def take(at_ns: int) -> None:
        # In this order: asking for the CPU time brings the kernel's figures up to date.
        used_ns = cpu_ns()
        delay_ns = local.delay_ns()
        if delay_ns is not None:
            event(CPU, at_ns, at_ns, used_ns, delay_ns)

    def mark_wait(at_ns: int) -> None:
        marking = local.marking
        if marking:
            take(at_ns)
            if marking == _LAST:
                local.marking = _OFF

    def mark_update(at_ns: int) -> None:
        last_ns, local.last_update_ns = local.last_update_ns, at_ns
        if last_ns:
            step_ns = at_ns - last_ns
            local.step_ns += (step_ns - local.step_ns) >> 3 if local.step_ns else step_ns
        if local.marking == _ON:
            take(at_ns)
            every = local.mark_every = marked_one_in(local.step_ns)
            if every > 1:
                local.marking, local.unmarked = _LAST, 0
        else:
            local.unmarked += 1
            if local.unmarked + 1 >= local.mark_every:
                local.marking = _ON
                take(at_ns)

    return mark_wait, mark_update


def marked_one_in(step_ns: int) -> int:
    """How many steps of this length share the marks of one, so that marks cost about a thousandth of the time."""
    if step_ns >= _ALWAYS_FROM_NS or step_ns <= 0:
        return 1
    return -(-_SPARSE_NS // step_ns)
