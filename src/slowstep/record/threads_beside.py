"""The script's own Python threads beside the training thread: what processor time each uses.

Threads of one process share the interpreter's lock: while one computes in Python, no other does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

from slowstep.record.fastpath import Event
from slowstep.record.format import CPU

# Of a core since the last look: a thread that uses so much has its stacks taken too; one that uses less than that is not marked at all.
_STACKS_FROM: Final = 0.1
_MARKED_FROM: Final = 0.01
# Each costs 10 us at each look.
_MOST: Final = 16
# What the recorder's own threads are called.
_OWN: Final = "slowstep-"


class ThreadsBeside:
    """Looks at them now and then, on the sampler's thread.

    `watched` maps idents to native ids of the threads whose stacks are taken: busy ones come in, up to `most_watched` of all.
    Threads in `trainers` (idents) mark their own time.
    """

    def __init__(
        self, event: Event, note: Callable[[dict[str, Any]], None], watched: dict[int, int], trainers: set[int], *, most_watched: int
    ) -> None:
        self._event, self._note, self._watched, self._trainers, self._most_watched = event, note, watched, trainers, most_watched
        # By native id: when each was looked at last, and its CPU time then.
        self._last: dict[int, tuple[int, int]] = {}
        self._named: set[int] = set()

    def look(self, at_ns: int) -> None:
        """Mark the CPU time of those that used some since the last look."""
        last, self._last = self._last, {}
        for thread in threading.enumerate():
            ident, number = thread.ident, thread.native_id
            if ident is None or number is None or ident in self._trainers or thread.name.startswith(_OWN):
                continue
            if len(self._last) >= _MOST:
                break
            used = _used_ns(number)
            if used is None:
                continue
            self._last[number] = at_ns, used[0]
            before_ns, before_cpu_ns = last.get(number, (at_ns, used[0]))
            share = (used[0] - before_cpu_ns) / max(at_ns - before_ns, 1)
            if share >= _MARKED_FROM:
                self._mark(thread.name, number, at_ns, used)
            if share >= _STACKS_FROM and len(self._watched) < self._most_watched:
                self._watched.setdefault(ident, number)

    def _mark(self, name: str, number: int, at_ns: int, used: tuple[int, int]) -> None:
        if number not in self._named:
            self._named.add(number)
            self._note({"kind": "thread", "id": number, "name": name})
        self._event(CPU, at_ns, at_ns, *used, thread=number)


def _used_ns(thread: int) -> tuple[int, int] | None:
    """CPU time and run-queue delay of a thread so far, ns; None where the kernel does not say."""
    try:
        handle = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            used, delay = os.read(handle, 64).split(None, 2)[:2]
        finally:
            os.close(handle)
        return int(used), int(delay)
    except (OSError, ValueError):
        return None
