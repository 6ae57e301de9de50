"""Which lines of a loop without a loader run between its update and its next forward, what they call, and how long they take.

Stacks cannot tell that of short lines: code that holds the GIL is not sampled, and what gives it away next is sampled in its
place. Nor can timed calls: a call is not known to be above the forward or below the update. So in a few gaps the loop's own lines are
timed, and what they call is counted. Tracing makes Python code three to six times as slow on 3.11, and timing the calls in other gaps
(call_times.py) less: how long it takes otherwise is known by both together (analyses/after_update/timed_lines.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.timing.callers import call_of
from slowstep.record.timing.line_counts import is_users, users_frame
from slowstep.record.timing.tracebacks import PACKAGE

# The first steps are not like the others, and after three gaps the lines are known.
FIRST: Final = 10
ENOUGH: Final = 3
# Lines and calls in one gap, some 50 ms: where there are more, stacks are right about what takes that long. It is an end, too, to what is
# timed after the last update of all.
MOST_EVENTS: Final = 100_000
MOST_WRITTEN: Final = 30
# A gap that waited for a core so long says where the kernel turned to another thread, not what the lines take: as it does when it is asked
# for a thread's CPU time, with which gaps end. Where such gaps are the rule, the wait is spread over all lines.
WAITED_AT_MOST: Final = 0.1
MOST_DROPPED: Final = 20
# The user's frames around the update, innermost first.
_MOST_FRAMES: Final = 16
_CALLS, _REPEATS = 200, 5


class LineTimes:
    """Times gaps of one thread at a time; times add up over the gaps."""

    def __init__(self, note: Callable[[dict[str, Any]], None]) -> None:
        self._note = note
        self.running, self._lines = False, _Lines()
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child, which inherits a trace function."""
        if self.running:
            self._lines.stop(0)
        self.running = self._impossible = False
        self._seen = self._gaps = self._dropped = self._begun_ns = 0
        self._lines = _Lines()

    @property
    def are_known(self) -> bool:
        """Whether enough gaps were timed."""
        return self._gaps >= ENOUGH

    def is_due(self) -> bool:
        """Count a gap; whether its lines are to be timed."""
        self._seen += 1
        return not (self._impossible or self.are_known or self.running) and self._seen >= FIRST

    def begin(self, frame: FrameType) -> bool:
        """Begin to time the user's frames among this one and its callers; whether that was possible."""
        self._begun_ns = time.monotonic_ns()
        self.running = sys.gettrace() is None and self._lines.start(frame)
        return self.running

    def end(self, at_ns: int, *, keep: bool = True, waited_ns: int = 0) -> None:
        """End a gap that was begun, of which the thread waited so long for a core; `keep` counts it, and else no further one is timed."""
        if keep and waited_ns > WAITED_AT_MOST * (at_ns - self._begun_ns) and self._dropped < MOST_DROPPED:
            self._dropped += 1
            self.drop()
            return
        self.running = False
        if not self._lines.stop(at_ns) or not keep:
            self._impossible = True
            return
        self._gaps += 1
        if self.are_known:
            self._note({"kind": "gap_lines", "gaps": self._gaps, "call_ns": call_cost_ns(), "lines": self._lines.result()})

    def drop(self) -> None:
        """End a gap that is not like the others, if one was begun, as if it had not been."""
        if self.running:
            self.running = False
            self._lines.drop()


class _Line:
    """Ns in a line, how many functions it called, and the codes of those that it called itself, or by a library, with that call of its."""

    __slots__ = ("callees", "calls", "ns")

    def __init__(self) -> None:
        self.ns = self.calls = 0
        self.callees: dict[CodeType, list[int] | None] = {}


class _Lines:
    def __init__(self) -> None:
        self._found: dict[tuple[CodeType, int], _Line] = {}
        self._codes: set[CodeType] = set()
        self._frames: list[FrameType] = []
        # By line: ns and calls of the gaps before this one.
        self._before: dict[tuple[CodeType, int], tuple[int, int]] = {}
        self._current: _Line | None = None
        self._since_ns = self._left = 0
        self._global = self._called

    def start(self, frame: FrameType | None) -> bool:
        """Trace the user's frames from here outwards, from their next line on: this one still holds our own work. False where there is
        none.
        """
        self._frames = _users_frames(frame)
        if not self._frames:
            return False
        self._codes = {each.f_code for each in self._frames}
        self._left = MOST_EVENTS
        self._before = {key: (line.ns, line.calls) for key, line in self._found.items()}
        for each in self._frames:
            each.f_trace = self._local
        sys.settrace(self._global)
        return True

    def stop(self, at_ns: int) -> bool:
        """Take everything away; whether all of the gap was seen."""
        # Somebody may have set a trace function of his own meanwhile: that one is not ours to stop.
        ours = sys.gettrace() == self._global
        if ours:
            sys.settrace(None)
        for frame in self._frames:
            if frame.f_trace == self._local:
                frame.f_trace = None
        # They are the script's, with all that they hold.
        self._frames = []
        self._turn_to(None, at_ns)
        return ours

    def drop(self) -> None:
        """The same, and forget what this gap has added."""
        self.stop(0)
        self._found = {key: line for key, line in self._found.items() if key in self._before}
        for key, line in self._found.items():
            line.ns, line.calls = self._before[key]

    def _line_of(self, frame: FrameType) -> _Line:
        key = (frame.f_code, frame.f_lineno or 0)
        return self._found.get(key) or self._found.setdefault(key, _Line())

    def _turn_to(self, line: _Line | None, at_ns: int) -> None:
        if self._current is not None:
            self._current.ns += at_ns - self._since_ns
        self._current, self._since_ns = line, at_ns

    def _local(self, frame: FrameType, event: str, _: Any) -> Any:
        at_ns = time.monotonic_ns()
        if event == "line":
            self._count()
            self._turn_to(self._line_of(frame), at_ns)
        elif event == "return":
            outer = frame.f_back
            self._turn_to(self._line_of(outer) if outer is not None and outer.f_code in self._codes else None, at_ns)
            # It must not be kept alive with all that it holds, where no step follows.
            self._frames = [each for each in self._frames if each is not frame]
            frame.f_trace = None
            return None
        return self._local

    def _called(self, frame: FrameType, _event: str, _: Any) -> Any:
        code = frame.f_code
        if code in self._codes:
            return self._local
        line = self._current
        if line is not None:
            line.calls += 1
            if code not in line.callees and not code.co_name.startswith("<") and (calling := self._calling(frame)) is not None:
                line.callees[code] = call_of(calling)
        self._count()
        return None

    def _calling(self, frame: FrameType) -> FrameType | None:
        """The frame of the loop where that itself calls this, or a library that it calls does, as a framework calls a model's forward."""
        outer = frame.f_back
        if outer is not None and outer.f_code not in self._codes and is_users(frame.f_code.co_filename):
            outer = users_frame(outer)
        return outer if outer is not None and outer.f_code in self._codes else None

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            # `stop` finds the trace function gone.
            sys.settrace(None)

    def result(self) -> list[dict[str, Any]]:
        """The lines by time, those of slowstep left out."""
        rows = sorted(self._found.items(), key=lambda row: -row[1].ns)[:MOST_WRITTEN]
        return [
            {**_place(code), "line": number, "ns": line.ns, "calls": line.calls, "callees": _callees(line)} for (code, number), line in rows
        ]


def _callees(line: _Line) -> list[dict[str, Any]]:
    """The functions that a line calls: the user's, where it calls such, else those of libraries."""
    codes = [code for code in line.callees if not code.co_filename.startswith(PACKAGE)]
    users = [code for code in codes if is_users(code.co_filename)]
    return [{**_place(code), "call": line.callees[code]} for code in users or codes]


def _place(code: CodeType) -> dict[str, Any]:
    return {"file": code.co_filename, "function": code.co_qualname, "first_line": code.co_firstlineno}


def _users_frames(frame: FrameType | None) -> list[FrameType]:
    found: list[FrameType] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        if is_users(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found


def call_cost_ns() -> float:
    """What a call of a Python function takes longer while it is counted; nothing may be traced meanwhile."""
    counter, times = _Lines(), ([], [])  # type: tuple[Any, tuple[list[int], list[int]]]
    counter._left, counter._current = MOST_EVENTS, _Line()
    for traced in (False, True) * _REPEATS:
        if traced:
            sys.settrace(counter._global)
        begun_ns = time.monotonic_ns()
        for _ in range(_CALLS):
            _nothing()
        took_ns = time.monotonic_ns() - begun_ns
        if traced:
            sys.settrace(None)
        times[traced].append(took_ns)
    return round(max(min(times[True]) - min(times[False]), 0) / _CALLS, 1)


def _nothing() -> None:
    """Does nothing."""
