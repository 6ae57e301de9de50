"""Exact times of the user's calls, in a few fetches, a few gaps after updates and a few bodies of steps.

Stacks cannot name a function that holds the GIL: the sampler gets the lock where that function's work is over, at the next
call that gives it away (a read, a print). So now and then calls are timed instead, by the C profiler of the standard library: 0.2 us a
call, in about one in a hundred of such stretches. Built-in functions are timed only where asked for, each call of them costs as much.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from slowstep.record.timing.gradient_names import names_gradients

# After a few early stretches no more than this share of the time is spent in timed ones.
SHARE: Final = 0.01
EARLY: Final = 3
# The first stretches are not like the others: caches are cold, and modules are imported.
FIRST: Final = 3
# Functions with less than this share of the time of their stretches are not written down.
SMALLEST_SHARE: Final = 0.005
# Of many stretches not every one is written down: a line holds all before it, and is as long as a quarter of a millisecond's work.
_WRITTEN_FROM: Final = 1.25
_REPEATS: Final = 5
# Of so many timed stretches it is noted when they began.
_MOST_BEGINNINGS: Final = 100
# A turn mostly comes while a long stretch passes, and in loops that take short and long ones in turns (two loaders' batches) the next is
# a short one, again and again: so many stretches, or fewer by chance, are let pass. Cycles of 2, 3, 4, 6 and 12 are hit evenly.
PASSED: Final = 12
BUILT_IN: Final = "<built-in>"


Describe = Callable[[list[Any], int], dict[str, Any]]


class CallTimes:
    """Times the calls of one kind of stretch, on one thread at a time; times add up over the stretches.

    `describe` makes a note of the profiler's entries and the samples made so far, where it is not to be the tree of calls. Of the first
    `passed` stretches from which on one may be timed it is any; the early ones follow one another.
    """

    def __init__(
        self,
        kind: str,
        note: Callable[[dict[str, Any]], None],
        *,
        share: float = SHARE,
        first: int = FIRST,
        early: int = EARLY,
        builtins: bool = False,
        describe: Describe | None = None,
        passed: int = 1,
    ) -> None:
        self._kind, self._note, self._share, self._first, self._early = kind, note, share, first, early
        self._builtins, self._describe, self._passed = builtins, describe, passed
        # Of its own: the training's random numbers are not touched.
        self._chance = random.Random(0)
        self._profiler: Any = None
        self.running = False
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child, which inherits a profiler that runs."""
        if self.running and self._profiler is not None:
            self._profiler.disable()
        self._profiler = None
        self._impossible = False
        self._slowdown: float | None = None
        self._seen = self._stretches = 0
        self._to_pass: int | None = None
        self._begun_ns = self._first_ns = self._spent_ns = self._wall_ns = self._written = self._samples = 0
        self._beginnings: list[int] = []
        self.running = False

    @property
    def stretches(self) -> int:
        """Stretches that were timed so far."""
        return self._stretches

    @property
    def wall_s(self) -> float:
        """How long they took together."""
        return self._wall_ns / 1e9

    def entries(self) -> list[Any]:
        """What the profiler has gathered so far; nothing before the first stretch."""
        return [] if self._profiler is None else list(self._profiler.getstats())

    def is_due(self, at_ns: int) -> bool:
        """Count a stretch; whether its calls are to be timed."""
        self._seen += 1
        if not self._first_ns:
            self._first_ns = at_ns
        if self._impossible or self._seen < self._first or self.running:
            return False
        return self._stretches < self._early or (self._spent_ns <= self._share * (at_ns - self._first_ns) and self._is_drawn())

    def _is_drawn(self) -> bool:
        """Whether this is the one of the stretches from when a turn has come that chance has chosen."""
        if self._to_pass is None:
            self._to_pass = self._chance.randrange(self._passed)
        if self._to_pass:
            self._to_pass -= 1
            return False
        self._to_pass = None
        return True

    def begin(self, at_ns: int) -> bool:
        """Begin to time calls if it is this stretch's turn; whether it is."""
        return self.is_due(at_ns) and self.enable(at_ns)

    def enable(self, at_ns: int) -> bool:
        """Begin to time calls; whether that was possible."""
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
        if self._profiler is None:
            # A child that was forked in the midst of it.
            return
        # On Python 3.11 somebody may have put a profiler of his own in our place meanwhile: that one is not ours to stop.
        if sys.version_info < (3, 12) and sys.getprofile() is not self._profiler:
            self._impossible = True
            return
        self._profiler.disable()
        self._spent_ns += at_ns - self._begun_ns
        if not keep:
            self.discard()
            return
        self._stretches += 1
        if len(self._beginnings) < _MOST_BEGINNINGS:
            self._beginnings.append(self._begun_ns)
        self._wall_ns += at_ns - self._begun_ns
        self._samples += samples
        if self._stretches <= EARLY or self._stretches >= _WRITTEN_FROM * self._written:
            self._written = self._stretches
            self._write()
        # Writing it down takes longer than a short stretch itself.
        self._spent_ns += time.monotonic_ns() - at_ns

    def discard(self) -> None:
        """Forget what the stretches so far have told."""
        if self._profiler is not None:
            self._profiler.clear()
        self._stretches = self._wall_ns = self._samples = self._written = 0
        self._beginnings.clear()

    def _write(self) -> None:
        entries = self._profiler.getstats()
        if self._describe is not None:
            self._note({"of": self._kind, "stretches": self._stretches, "wall_ns": self._wall_ns, **self._describe(entries, self._samples)})
            return
        tree = call_tree(entries)
        if self._slowdown is None:
            self._slowdown = slowdown(self._builtins)
        known = {"stretches": self._stretches, "wall_ns": self._wall_ns, "slowdown": self._slowdown, "began_ns": self._beginnings}
        self._note({"kind": "calls", "of": self._kind, **known, **tree})


def slowdown(builtins: bool) -> float:
    """How many times as long Python code takes while its calls are timed: on 3.11 every instruction is looked at, 1.5 to 3 times."""
    from _lsprof import Profiler

    profiler, times = Profiler(builtins=builtins), ([], [])  # type: tuple[Any, tuple[list[int], list[int]]]
    for timed in (False, True) * _REPEATS:
        if timed:
            profiler.enable()
        begun_ns = time.monotonic_ns()
        _work()
        times[timed].append(time.monotonic_ns() - begun_ns)
        profiler.disable()
    return round(max(min(times[True]) / max(min(times[False]), 1), 1.0), 3)


def _work() -> list[float]:
    """Some 20 us of what loops in Python consist of: comparing, calling a built-in function, making a list."""
    found: list[float] = []
    for x in range(128):
        right = x + 1
        found.append(3.0 if x == right or x == 2 * right else 1.0)
    return found


def others_profile() -> bool:
    """Whether the user's own profiler runs in this thread."""
    return sys.getprofile() is not None


def call_tree(entries: list[Any]) -> dict[str, Any]:
    """Functions with their calls, total and own ns, and what each spent in those that it called (by index), from the profiler's entries."""
    whole = sum(entry.inlinetime for entry in entries)
    kept = sorted((e for e in entries if e.totaltime >= SMALLEST_SHARE * whole), key=lambda entry: -entry.totaltime)
    index = {entry.code: number for number, entry in enumerate(kept)}
    functions = []
    for entry in kept:
        callees = [[index[call.code], int(call.totaltime * 1e9)] for call in entry.calls or () if call.code in index]
        functions.append(
            {
                **_place(entry.code),
                "calls": entry.callcount,
                "total_ns": int(entry.totaltime * 1e9),
                "own_ns": int(entry.inlinetime * 1e9),
                "callees": callees,
            }
        )
    return {"whole_ns": int(whole * 1e9), "functions": functions}


def _place(code: CodeType | str) -> dict[str, Any]:
    """Where a function is; the profiler knows built-in ones by a text (`<method 'item' of 'torch._C.TensorBase' objects>`)."""
    if isinstance(code, CodeType):
        place = {"file": code.co_filename, "function": code.co_qualname, "line": code.co_firstlineno}
        return {**place, "gradients": True} if names_gradients(code) else place
    # Some texts hold an address: <built-in method print of module object at 0x7f..>.
    return {"file": BUILT_IN, "function": code.partition(" at 0x")[0].strip("<>"), "line": 0}
