"""The few instructions that run in every step of a training: claim a slot, pack a record into it.

Measured: in a training every cache line of ours is cold, so an event costs three to six times what a loop over it shows. Hence closures
without attributes, and one function for all hooks: code that several of them share is still warm for the next. Hence also one record for
a whole step where steps are shortest: of the 12.4 us that an empty step of 100 us was longer by, it spares 2.4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from slowstep.record.format import BACKWARD, READY_UNKNOWN, RECORD, STEP, STEP_RECORD, UPDATE, WAIT
from slowstep.record.threads import Fields, PerThread, ThreadState

# An offset that lies beyond every chunk: whoever gets it asks the slow path.
_ASK: Final = 1 << 62

# A counter of slots, where it ends, and the memory it counts in: only ever exchanged together.
State = tuple[Callable[[], int], int, Any]

# What fits into the fields of a STEP record. A thread holds back only requests whose batch index and iterator fit.
MOST_NUMBER: Final = (1 << 32) - 1
_MOST_SAMPLES: Final = (1 << 16) - 1
_MOST_OPTIMIZERS: Final = (1 << 8) - 1

ASKING: Final[State] = (itertools.repeat(_ASK).__next__, 0, bytearray())


class Event(Protocol):
    """Writes one record. `thread` is a native id, 0 for the calling thread."""

    def __call__(
        self, kind: int, t0: int, t1: int, a: int = 0, b: int = 0, c: int = 0, flags: int = 0, extra: int = 0, thread: int = 0
    ) -> None: ...


class FastPath(NamedTuple):
    """`event` writes one record. `end_step` writes an update (thread, optimizer, t0, t1) together with what the thread has held back of
    its step, `release` what it has held back alone. `bind` gives them a place to write to.
    """

    event: Event
    end_step: Callable[[ThreadState, int, int, int], None]
    release: Callable[[ThreadState], None]
    bind: Callable[[State], None]


def build_fast_path(
    local: PerThread, place: Callable[[Fields], None], fault: Callable[[Exception], None], state: State = ASKING
) -> FastPath:
    """The functions of one process. `place` takes what finds no slot, `fault` what goes wrong."""
    pack, pack_step = RECORD.pack_into, STEP_RECORD.pack_into

    def event(kind: int, t0: int, t1: int, a: int = 0, b: int = 0, c: int = 0, flags: int = 0, extra: int = 0, thread: int = 0) -> None:
        try:
            # Taken at once: a chunk, its end and its counter belong together whatever other threads do.
            claim, end, buffer = state
            offset = claim()
            if offset < end:
                pack(buffer, offset, t0, t1, a, b, c, thread or local.me.thread, flags, extra, kind)
            else:
                place((t0, t1, a, b, c, thread or local.me.thread, flags, extra, kind))
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)

    def end_step(me: ThreadState, optimizer: int, t0: int, t1: int) -> None:
        held, backward = me.held, me.backward_ns
        try:
            if held is not None and backward:
                began, waited, iterator, index, samples = held
                if began <= t0 and t1 - began <= MOST_NUMBER and 0 <= samples <= _MOST_SAMPLES and optimizer <= _MOST_OPTIMIZERS:
                    claim, end, buffer = state
                    offset = claim()
                    if offset < end:
                        took, later = me.backward_took_ns, backward - began
                        me.held, me.backward_ns = None, 0
                        pack_step(
                            buffer, offset, began, t1, waited, later, took, t0 - began, index, iterator, me.thread, samples, optimizer, STEP
                        )
                        return
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        release(me)
        event(UPDATE, t0, t1, optimizer, 0, 0, 0, 0, me.thread)

    def release(me: ThreadState) -> None:
        held, backward = me.held, me.backward_ns
        me.held, me.backward_ns = None, 0
        if held is not None:
            t0, waited, iterator, index, samples = held
            event(WAIT, t0, t0 + waited, iterator, index, samples, 0, READY_UNKNOWN, me.thread)
        if backward:
            event(BACKWARD, backward, backward + me.backward_took_ns, 0, 0, 0, 0, 0, me.thread)

    def bind(new: State) -> None:
        nonlocal state
        state = new

    return FastPath(event, end_step, release, bind)
