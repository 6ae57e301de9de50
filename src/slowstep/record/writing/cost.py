"""What recording itself costs, measured here: one hooked call, recorded into memory that is discarded.

Measured with cold caches, as in a training: between two events of one the processor has done something else. A loop over events alone
would show a fifth of it.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from typing import Final

from slowstep.record.writing.fastpath import build_fast_path
from slowstep.record.writing.format import RECORD_BYTES, WAIT
from slowstep.record.writing.threads import Fields, PerThread

_ROUNDS: Final = 7
# As much as the second-level cache of a core holds.
_CACHE_BYTES: Final = 1024 * 1024


class EventCost:
    """What one recorded call takes longer than the call alone, `ns`: measured when recording begins, and once more."""

    def __init__(self, local: PerThread) -> None:
        self._local, self._looks = local, 0
        self.ns = event_ns(local)

    def measure_again(self) -> int:
        """At the second call, when the process no longer starts up: what was measured at first may have met a busy disk or machine.
        Whatever disturbs makes a call longer, so the smaller one holds. Returns the CPU time that it took, in ns.
        """
        self._looks += 1
        if self._looks != 2:
            return 0
        begun_ns = time.thread_time_ns()
        self.ns = min(self.ns, event_ns(self._local))
        return time.thread_time_ns() - begun_ns


def event_ns(local: PerThread) -> int:
    """Nanoseconds that one recorded call takes longer than the call alone: the median of seven."""
    clock = time.monotonic_ns
    size = (_ROUNDS + 1) * RECORD_BYTES
    event = build_fast_path(local, _drop, _ignore, (itertools.count(0, RECORD_BYTES).__next__, size, bytearray(size))).event

    @functools.wraps(_nothing)
    def hooked() -> None:
        t0 = clock()
        try:
            _nothing()
        except BaseException:  # hooks catch everything, and what that costs is measured here
            raise
        event(WAIT, t0, clock(), 1, 2, 3)

    other = bytearray(_CACHE_BYTES)
    added_ns = []
    for _ in range(_ROUNDS):
        times_ns = []
        for call in (_nothing, hooked):
            other.replace(b"\1", b"\2")
            begin_ns = clock()
            call()
            times_ns.append(clock() - begin_ns)
        added_ns.append(times_ns[1] - times_ns[0])
    return max(int(statistics.median(added_ns)), 0)


def _nothing() -> None:
    pass


def _drop(fields: Fields) -> None:
    pass


def _ignore(error: Exception) -> None:
    pass
