"""Exact times of the user's calls, in a few fetches and in a few gaps after updates.

Stacks cannot name a function that holds the interpreter's lock: the sampler gets the lock where that function's work is over, at the next
call that gives it away (a read, a print). So now and then calls are timed instead, by the C profiler of the standard library, without
built-in functions: 0.2 us a call, in about one in a hundred of such stretches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from slowstep.record.builtin_calls import builtin_rows

# After a few early stretches no more than this share of the time is spent in timed ones.
SHARE: Final = 0.01
EARLY: Final = 3
# The first stretches are not like the others: caches are cold, and modules are imported.
FIRST: Final = 3
# Functions with less than this share of the time of their stretches are not written down.
SMALLEST_SHARE: Final = 0.005


class CallTimes:
    """Times the calls of one kind of stretch, on one thread at a time; times add up over the stretches."""

    def __init__(
        self, kind: str, note: Callable[[dict[str, Any]], None], *, builtins: bool = False, share: float = SHARE, early: int = EARLY
    ) -> None:
        self._kind, self._note = kind, note
        self._builtins, self._share, self._early = builtins, share, early
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._profiler: Any = None
        self._impossible = False
        self._seen = self._stretches = 0
        self._begun_ns = self._first_ns = self._spent_ns = 0
        self._samples = self._timed_ns = 0
        self.running = False

    def begin(self, at_ns: int) -> bool:
        """Begin to time calls if it is this stretch's turn; whether it is."""
        self._seen += 1
        if not self._first_ns:
            self._first_ns = at_ns
        if self._impossible or self._seen < FIRST or self.running:
            return False
        if self._stretches >= self._early and self._spent_ns > self._share * (at_ns - self._first_ns):
            return False
        if others_profile():
            return False
        try:
            if self._profiler is None:
                from _lsprof import Profiler

                self._profiler = Profiler(builtins=self._builtins)
            self._profiler.enable()
        except Exception:
            # Another profiler came first, or this Python has none.
            self._impossible = True
            return False
        self._begun_ns, self.running = at_ns, True
        return True

    def end(self, at_ns: int, *, keep: bool = True, samples: int = 0) -> None:
        """End a stretch that was begun, in which so many samples were made; `keep` writes down what is known so far."""
        self.running = False
        # On Python 3.11 somebody may have put a profiler of his own in our place meanwhile: that one is not ours to stop.
        if sys.version_info < (3, 12) and sys.getprofile() is not self._profiler:
            self._impossible = True
            return
        self._profiler.disable()
        self._spent_ns += at_ns - self._begun_ns
        if not keep:
            self._profiler.clear()
            self._stretches = 0
            return
        self._stretches += 1
        self._samples += samples
        self._timed_ns += at_ns - self._begun_ns
        self._note({"of": self._kind, "stretches": self._stretches, **self._described(self._profiler.getstats())})
        # Writing it down takes longer than a short stretch itself.
        self._spent_ns += time.monotonic_ns() - at_ns

    def _described(self, entries: list[Any]) -> dict[str, Any]:
        if self._builtins:
            return {"kind": "builtins", "samples": self._samples, "wall_ns": self._timed_ns, **builtin_rows(entries, self._samples)}
        return {"kind": "calls", **call_tree(entries)}


def others_profile() -> bool:
    """Whether the user's own profiler runs in this thread."""
    return sys.getprofile() is not None


def call_tree(entries: list[Any]) -> dict[str, Any]:
    """Functions with their total and own ns, and what each spent in those that it called (by index), from the profiler's entries."""
    python = [entry for entry in entries if isinstance(entry.code, CodeType)]
    whole = sum(entry.inlinetime for entry in python)
    kept = sorted((e for e in python if e.totaltime >= SMALLEST_SHARE * whole), key=lambda entry: -entry.totaltime)
    index = {entry.code: number for number, entry in enumerate(kept)}
    functions = []
    for entry in kept:
        code = entry.code
        callees = [[index[call.code], int(call.totaltime * 1e9)] for call in entry.calls or () if call.code in index]
        functions.append(
            {
                "file": code.co_filename,
                "function": code.co_qualname,
                "line": code.co_firstlineno,
                "total_ns": int(entry.totaltime * 1e9),
                "own_ns": int(entry.inlinetime * 1e9),
                "callees": callees,
            }
        )
    return {"whole_ns": int(whole * 1e9), "functions": functions}
