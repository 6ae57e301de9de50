"""What known readers read in a few batches beside what they are asked for: chunks that are inflated for a row of them.

A profile function sees these calls with their arguments, on the thread that makes the batch and for that batch alone. The libraries'
classes stay as they are: a method that is replaced, if only for a while, is seen by other threads, by whoever keeps it, and in tracebacks.
Nothing is looked at until timed calls have shown that such a reader holds time.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.timing.call_times import CallTimes
from slowstep.record.timing.frame_lines import line_of
from slowstep.record.timing.known_reads import KnownRead, ReadExtent, bytes_read, known_read
from slowstep.record.timing.tracebacks import PACKAGE, is_from_signal_handler

# Of the time of making batches; a look takes as long as the batch, and longer by each call that Python makes in it.
SHARE: Final = 0.005
EARLY: Final = 6
# Of the timed calls' time: what a reader holds at least to be looked at.
WORTH_SHARE: Final = 0.10
# The calls are asked for readers when so many batches were timed, and whenever it is twice as many.
_FIRST_ASKED: Final = 2
# The last looks are kept, and of each the first places.
MOST_LOOKS: Final = 24
MOST_ROWS: Final = 16

# By the number of the code, for the hash of a code is made of all that is in it, at every call: the code itself, and what is known of it.
_Watched = dict[int, tuple[CodeType, KnownRead]]


class ReadLooks(CallTimes):
    """Looks at batches as `calls` times others. `fault` counts an error of slowstep's own."""

    def __init__(
        self, note: Callable[[dict[str, Any]], None], fault: Callable[[Exception], None], calls: CallTimes, *, passed: int
    ) -> None:
        self._calls, self._fault = calls, fault
        super().__init__("fetch", note, share=SHARE, early=EARLY, describe=_described, passed=passed)

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        super().forget()
        self._watched: _Watched = {}
        self._ask_at = _FIRST_ASKED

    def begin(self, at_ns: int) -> bool:
        """Begin to look if there is something to be seen and it is this batch's turn; whether it is."""
        if self._calls.stretches >= self._ask_at:
            self._ask_at = 2 * self._calls.stretches
            self._watched = _worth_watching(self._calls.entries())
        return bool(self._watched) and super().begin(at_ns)

    def enable(self, at_ns: int) -> bool:
        """Begin to look; whether that was possible."""
        if self._profiler is None:
            self._profiler = _Watcher(self._fault)
        self._profiler.watched = self._watched
        return super().enable(at_ns)

    def end(self, at_ns: int, *, keep: bool = True, samples: int = 0) -> None:
        """End a look that was begun, at a batch of so many samples (0 unknown)."""
        if self._profiler is not None:
            self._profiler.samples = samples
        super().end(at_ns, keep=keep, samples=samples)


def _described(looks: list[Any], samples: int) -> dict[str, Any]:
    return {"kind": "stored_reads", "samples": samples, "looks": looks}


def _worth_watching(entries: list[Any]) -> _Watched:
    """The known readers among timed calls that hold time."""
    least = WORTH_SHARE * sum(entry.inlinetime for entry in entries)
    codes = [entry.code for entry in entries if entry.totaltime >= least]
    return {id(code): (code, read) for code in codes if (read := known_read(code)) is not None}


class _Watcher:
    """The profile function, with what `CallTimes` asks of a profiler."""

    def __init__(self, fault: Callable[[Exception], None]) -> None:
        self._fault = fault
        self.watched: _Watched = {}
        self.samples = 0
        self._looks: deque[dict[str, Any]] = deque(maxlen=MOST_LOOKS)
        self._begin()

    def _begin(self) -> None:
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._open: FrameType | None = None
        self._read: KnownRead | None = None
        self._extent: ReadExtent | None = None
        self._before: tuple[int, int] | None = None
        self._own_ns = self._called_ns = 0
        self._begun_ns = time.monotonic_ns()

    def enable(self) -> None:
        """Begin a look."""
        self._begin()
        sys.setprofile(self)

    def disable(self) -> None:
        """End it."""
        # Somebody may have put a profiler of his own in our place meanwhile: that one is not ours to stop.
        if sys.getprofile() is self:
            sys.setprofile(None)
        wall_ns = time.monotonic_ns() - self._begun_ns - self._own_ns
        rows = list(self._rows.values())
        self._looks.append({"at_ns": self._begun_ns, "wall_ns": max(wall_ns, 0), "samples": self.samples, "rows": rows})
        # Not to hold what the script has let go of.
        self._open = None

    def getstats(self) -> list[Any]:
        """The looks that are kept, in order."""
        return list(self._looks)

    def clear(self) -> None:
        """Forget them."""
        self._looks.clear()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """A call begins or ends on this thread. What is raised here would reach the script."""
        if (event == "call" and self._open is None and id(frame.f_code) in self.watched) or (event == "return" and frame is self._open):
            at_ns = time.monotonic_ns()
            try:
                if event == "call":
                    self._enter(frame)
                else:
                    self._leave(frame, argument, at_ns)
            except Exception as error:  # the border: counted, and never raised into the training
                self.watched, self._open = {}, None
                self._fault(error)
            self._own_ns += time.monotonic_ns() - at_ns

    def _enter(self, frame: FrameType) -> None:
        _, read = self.watched[id(frame.f_code)]
        self._open, self._read = frame, read
        self._extent = None if read.of_call is None else _extent_of(read.of_call, frame)
        self._before = bytes_read() if self._extent is not None and self._extent.is_kept else None
        self._called_ns = time.monotonic_ns()

    def _leave(self, frame: FrameType, result: Any, at_ns: int) -> None:
        self._open, read = None, self._read
        if read is None:
            return
        extent = self._extent if read.of_result is None else _extent_of(read.of_result, result)
        if extent is not None:
            self._count(read, frame, extent, at_ns - self._called_ns, not extent.is_kept or self._has_read())

    def _has_read(self) -> bool:
        """Whether this thread has read anything since the call began: what the library has kept is not read again."""
        before, after = self._before, bytes_read()
        return before is not None and after is not None and after[0] - before[0] > before[1]

    def _count(self, read: KnownRead, frame: FrameType, extent: ReadExtent, ns: int, is_inflated: bool) -> None:
        asking, line = _asking(frame)
        # Selections and row groups may be of any length: the first ones stand for those of their place.
        chunk = () if extent.selected is None else extent.chunk
        key = (read.library, frame.f_code, asking.f_code, line, chunk)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MOST_ROWS:
                return
            row = self._rows[key] = _row(read, frame, asking, line, extent)
        row["calls"] += 1
        row["total_ns"] += ns
        row["inflating"] += is_inflated
        row["inflated_bytes"] += extent.inflated_bytes * is_inflated
        if extent.used_bytes is not None:
            row["used_bytes"] += extent.used_bytes


def _extent_of(ask: Callable[[Any], ReadExtent | None], thing: Any) -> ReadExtent | None:
    try:
        return ask(thing)
    except Exception as error:  # the library's own objection, whatever it is: not known is an answer
        if is_from_signal_handler(error):
            raise
        return None


def _asking(frame: FrameType) -> tuple[FrameType, int]:
    """The innermost frame of the script's own, in the making of the batch, that a call comes from, and its line; where there is none, who
    called.
    """
    caller = frame.f_back
    # Below the recorder's own frame is what asks for the batch.
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        if "-packages" not in caller.f_code.co_filename:
            return _around(caller), line_of(caller)
        caller = caller.f_back
    caller = frame.f_back or frame
    return caller, line_of(caller)


def _around(frame: FrameType) -> FrameType:
    """The function that a comprehension stands in: up to Python 3.11 it is one of its own."""
    outer = frame
    while outer.f_code.co_name.endswith(("comp>", "genexpr>")) and outer.f_back is not None:
        outer = outer.f_back
    return outer if outer.f_code.co_filename == frame.f_code.co_filename else frame


def _row(read: KnownRead, frame: FrameType, asking: FrameType, line: int, extent: ReadExtent) -> dict[str, Any]:
    return {
        "library": read.library,
        "reader": frame.f_code.co_qualname,
        "file": asking.f_code.co_filename,
        "function": asking.f_code.co_qualname,
        "first_line": asking.f_code.co_firstlineno,
        "line": line,
        "chunk": list(extent.chunk),
        "selected": None if extent.selected is None else list(extent.selected),
        "calls": 0,
        "inflating": 0,
        "total_ns": 0,
        "inflated_bytes": 0,
        "used_bytes": None if extent.used_bytes is None else 0,
    }
