"""The script's own Python threads beside the one that trains: what processor time each uses.

Threads of one process share the GIL: while one computes in Python, no other does.
"""

from __future__ import annotations

import dis
import threading
from collections.abc import Callable, Collection
from itertools import pairwise
from types import CodeType
from typing import Any, Final

from slowstep.record.writing.fastpath import WriteRecord
from slowstep.record.writing.format import CPU
from slowstep.record.writing.threads import Schedstat

# As recordings call it.
NAME: Final = "threads_beside"
# Of a core since the last look: a thread that uses so much has its stacks taken too; one that uses less than that is not marked at all.
_STACKS_FROM: Final = 0.1
_MARKED_FROM: Final = 0.01
# In one look; where there are more threads, they are looked at in turns. Each costs 10 us.
_MOST: Final = 16
# What the recorder's own threads are called.
_OWN: Final = "slowstep-"
# Methods of queue.Queue, threading.Condition and threading.Event by which a thread tells another that something is there. Of them `set` is
# a type, too.
_HANDING_OVER: Final = frozenset(("put", "put_nowait", "notify", "notify_all"))
_EVENT_SET: Final = "set"
# What takes an item, up to Python 3.13 and later.
_ITEM: Final = ("BINARY_SUBSCR", "BINARY_OP")


class ThreadWatch:
    """Looks at them now and then, on the sampler's thread.

    `watched` maps idents to native ids of the threads whose stacks are taken: busy ones come in, while it has fewer than `most_watched`.
    Threads in `updaters` (idents), those that call optimizers, mark their own time.
    """

    def __init__(
        self,
        event: WriteRecord,
        note: Callable[[dict[str, Any]], None],
        watched: dict[int, int],
        updaters: Collection[int],
        *,
        most_watched: int,
    ) -> None:
        self._event, self._note, self._watched, self._updaters, self._most_watched = event, note, watched, updaters, most_watched
        # By native id: when each was looked at last, and its CPU time then.
        self._last: dict[int, tuple[int, int]] = {}
        self._named: set[int] = set()
        # Marked at their last look: else the mark before this one is long ago, and they were idle meanwhile.
        self._busy: set[int] = set()
        self._turn = 0
        tells = _used_ns(threading.get_native_id()) is not None
        note({"kind": "hook", "name": NAME, "state": "on" if tells else "off", "reason": "" if tells else "the kernel has no schedstat"})

    def look(self, at_ns: int) -> None:
        """Mark the CPU time of those that used some since the last look."""
        threads = self._threads()
        alive = {number for number, _, _ in threads}
        self._last = {number: seen for number, seen in self._last.items() if number in alive}
        self._busy &= alive
        first = self._turn % max(len(threads), 1)
        self._turn = first + _MOST if len(threads) > _MOST else 0
        for number, ident, name in (threads[first:] + threads[:first])[:_MOST]:
            used = _used_ns(number)
            if used is None:
                continue
            before_ns, before_cpu_ns = self._last.get(number, (at_ns, used[0]))
            self._last[number] = at_ns, used[0]
            share = (used[0] - before_cpu_ns) / max(at_ns - before_ns, 1)
            if share < _MARKED_FROM:
                self._busy.discard(number)
                continue
            if number not in self._busy:
                self._begin(name, number)
                self._event(CPU, before_ns, before_ns, before_cpu_ns, used[1], thread=number)
            self._event(CPU, at_ns, at_ns, *used, thread=number)
            if share >= _STACKS_FROM and len(self._watched) < self._most_watched:
                self._watched.setdefault(ident, number)

    def _threads(self) -> list[tuple[int, int, str]]:
        """Native id, ident and name of each. Not threading.enumerate(): it allocates under a lock that finalizers may wait for."""
        # A copy is made in one piece; a list of pairs is not: each may set off the garbage collector, and that other threads.
        known = getattr(threading, "_active", {}).copy()
        return [
            (thread.native_id, ident, thread.name)
            for ident, thread in known.items()
            if thread.native_id is not None and ident not in self._updaters and not thread.name.startswith(_OWN)
        ]

    def _begin(self, name: str, number: int) -> None:
        self._busy.add(number)
        if number not in self._named:
            self._named.add(number)
            self._note({"kind": "thread", "id": number, "name": name})


def hands_over(code: CodeType) -> bool:
    """Whether a function names a method that hands something to another thread, as whoever makes batches in a thread does."""
    return not _HANDING_OVER.isdisjoint(code.co_names) or (_EVENT_SET in code.co_names and _calls_method(code, _EVENT_SET))


def _calls_method(code: CodeType, name: str) -> bool:
    # As in `x.at[i].set(v)`, which changes an array.
    is_item_of_array = "at" in code.co_names
    return any(
        step.argval == name and step.opname in ("LOAD_ATTR", "LOAD_METHOD") and not (is_item_of_array and before.opname in _ITEM)
        for before, step in pairwise(dis.get_instructions(code))
    )


def _used_ns(thread: int) -> tuple[int, int] | None:
    """CPU time and run-queue delay of a thread so far, ns; None where the kernel does not say, or it has ended."""
    try:
        return Schedstat(thread).times_ns()
    except (OSError, ValueError):
        return None
