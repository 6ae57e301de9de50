"""The few instructions that run in every step of a training: claim a slot, pack a record into it.

Measured: in a training every cache line of ours is cold, so an event costs three to six times what a loop over it shows. Hence closures
without attributes, and one function for all hooks: code that several of them share is still warm for the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, Protocol

from slowstep.record.format import RECORD
from slowstep.record.threads import Fields, PerThread

# An offset that lies beyond every chunk: whoever gets it asks the slow path.
_ASK: Final = 1 << 62

# A counter of slots, where it ends, and the memory it counts in: only ever exchanged together.
State = tuple[Callable[[], int], int, Any]

ASKING: Final[State] = (itertools.repeat(_ASK).__next__, 0, bytearray())


class Event(Protocol):
    """Writes one record. `thread` is a native id, 0 for the calling thread."""

    def __call__(
        self, kind: int, t0: int, t1: int, a: int = 0, b: int = 0, c: int = 0, flags: int = 0, extra: int = 0, thread: int = 0
    ) -> None: ...


def build_fast_path(
    local: PerThread, place: Callable[[Fields], None], fault: Callable[[Exception], None], state: State = ASKING
) -> tuple[Event, Callable[[State], None]]:
    """The event function, and the one that gives it a place to write to. `place` takes what finds no slot, `fault` what goes wrong."""
    pack = RECORD.pack_into

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

    def bind(new: State) -> None:
        nonlocal state
        state = new

    return event, bind
