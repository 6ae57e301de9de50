"""What recording itself costs, measured here: one event and its two clock readings, written to memory that is thrown away."""

from __future__ import annotations

import itertools
import time
from typing import Final

from slowstep.record.fastpath import build_fast_path
from slowstep.record.format import RECORD_BYTES
from slowstep.record.threads import Fields, PerThread

_EVENTS: Final = 100
_ROUNDS: Final = 3


def event_ns(local: PerThread) -> int:
    """Nanoseconds that one event takes: the fastest of three rounds of a hundred."""
    clock = time.monotonic_ns
    best = 1 << 62
    for _ in range(_ROUNDS):
        size = (_EVENTS + 1) * RECORD_BYTES
        state = (itertools.count(0, RECORD_BYTES).__next__, size, bytearray(size))
        event, _bind = build_fast_path(local, _drop, _ignore, state)
        begin_ns = clock()
        for _event in range(_EVENTS):
            event(1, clock(), clock(), 1, 2, 3)
        best = min(best, clock() - begin_ns)
    return best // _EVENTS


def _drop(fields: Fields) -> None:
    pass


def _ignore(error: Exception) -> None:
    pass
