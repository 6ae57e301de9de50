"""The few instructions that run in every step of a training: claim a slot, pack a record into it.

Measured: in a training every cache line of ours is cold, so an event costs three to six times what a loop over it shows. Hence closures
without attributes, and one function for all hooks: code that several of them share is still warm for the next. Hence also one record for
a whole step where steps are shortest (of the 12.4 us that an empty step of 100 us was longer by, it spares 2.4), and several such records
written together (of 11.7 to 15 us on 205 to 213 us, 2.1 to 3.3).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from slowstep.record.writing.format import BACKWARD, READY_UNKNOWN, RECORD, STEP, STEP_RECORD, UPDATE, WAIT
from slowstep.record.writing.threads import Fields, PerThread, ThreadState

# An offset that lies beyond every chunk: whoever gets it asks the slow path.
_ASK: Final = 1 << 62

# A counter of slots, where it ends, and the memory it counts in: only ever exchanged together.
SlotCounter = tuple[Callable[[], int], int, Any]

# What fits into the fields of a STEP record. A thread holds back only requests whose batch index and iterator fit.
MOST_NUMBER: Final = (1 << 32) - 1
_MOST_SAMPLES: Final = (1 << 16) - 1
_MOST_OPTIMIZERS: Final = (1 << 8) - 1

# Steps up to SHORT_NS wait for HELD_NS to be written together: to write each at once takes 6 us of an empty one, one in forty a sixth of
# that. A process that is killed loses those of the last HELD_NS; of longer steps none.
SHORT_NS: Final = 500_000
HELD_NS: Final = 8_000_000
# Under this, recording a fetch is itself the cost: 15 to 30 us with its wait. Well above what the same fetch takes when it is not measured:
# with 60 us here, fetches of 50 us were long ones whenever they were measured, which made steps of 290 us longer by a twentieth.
TINY_NS: Final = 120_000
# The hook of fetches passes over tiny ones unseen, until a wait is too long for one.
NOT_TINY_NS: Final = 2 * TINY_NS

ASKING: Final[SlotCounter] = (itertools.repeat(_ASK).__next__, 0, bytearray())


class WriteRecord(Protocol):
    """Writes one record. `thread` is a native id, 0 for the calling thread."""

    def __call__(
        self, kind: int, t0: int, t1: int, a: int = 0, b: int = 0, c: int = 0, flags: int = 0, extra: int = 0, thread: int = 0
    ) -> None: ...


class FastPath(NamedTuple):
    """`event` writes one record. `write_ended` writes the steps of a thread, of any, that are over and were held back; `release` also
    what the calling thread has held back of one that is not over. `bind` gives them a place to write to.
    """

    event: WriteRecord
    write_ended: Callable[[ThreadState], None]
    release: Callable[[ThreadState], None]
    bind: Callable[[SlotCounter], None]


def build_fast_path(
    local: PerThread, place: Callable[[Fields], None], fault: Callable[[Exception], None], state: SlotCounter = ASKING
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

    def write_ended(me: ThreadState) -> None:
        ended, thread = me.ended, me.thread
        while ended:
            try:
                # One by one: each is written once, whichever threads do this at a time.
                held, backward, optimizer, t0, t1 = ended.pop(0)
            except IndexError:
                return
            began, received, iterator, samples = held
            index = iterator.batches
            iterator.batches = index + 1
            if index == iterator.last:
                samples = iterator.left
            me.write_ns = t1 + HELD_NS if t1 - began <= SHORT_NS else 0
            if received - began > NOT_TINY_NS:
                me.quick, me.fetch_ns = None, TINY_NS
            try:
                fits = began <= t0 and t1 - began <= MOST_NUMBER and 0 <= samples <= _MOST_SAMPLES and optimizer <= _MOST_OPTIMIZERS
                if backward is not None and fits:
                    claim, end, buffer = state
                    offset = claim()
                    if offset < end:
                        pack_step(
                            buffer, offset, began, t1, received - began, backward[0] - began, backward[1] - backward[0], t0 - began,
                            index, iterator.number, thread, samples, optimizer, STEP,
                        )  # fmt: skip
                        continue
            except Exception as error:  # the border: counted, and never raised into the training
                fault(error)
            event(WAIT, began, received, iterator.number, index, samples, 0, READY_UNKNOWN, thread)
            if backward is not None:
                event(BACKWARD, *backward, 0, 0, 0, 0, 0, thread)
            if optimizer:
                event(UPDATE, t0, t1, optimizer, 0, 0, 0, 0, thread)

    def bind(new: SlotCounter) -> None:
        nonlocal state
        state = new

    return FastPath(event, write_ended, _build_release(write_ended), bind)


def _build_release(write_ended: Callable[[ThreadState], None]) -> Callable[[ThreadState], None]:
    def release(me: ThreadState) -> None:
        held, backward = me.held, me.backward
        me.held = me.backward = None
        if held is not None:
            me.ended.append((held, backward, 0, 0, 0))
        if me.ended:
            write_ended(me)

    return release
