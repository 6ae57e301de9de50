"""How often each line of a few functions runs in one body, gap or fetch: that tells a loop in Python from one long operation.

The time of a function says nothing of it: `a @ b` and a loop over pixels are both a line of Python. Counting costs a quarter of a
microsecond a line, so it is done in one or two stretches, for functions that hold time, and ends by itself after some thousand lines.
"""

from __future__ import annotations

import contextlib
import functools
import opcode
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.framework import Framework
from slowstep.record.timing.called import CallCounter
from slowstep.record.timing.tracebacks import PACKAGE

# Functions of the user's with less than this share of a body (without its backward) or gap are not counted.
WORTH_SHARE: Final = 0.05
# Some 3 ms.
MOST_LINES: Final = 6_000
# Of a fetch that takes long, a line for each of so many microseconds, that a sample of it ends before counting does: pixel by pixel, a
# picture of 100 x 100 is 40,000 lines. Lines of 0.06 us were measured: of nine samples or more the first then ends in time. Counted once,
# that fetch takes about as long again at most.
LINE_EACH_US: Final = 0.5
MOST_OF_LONG: Final = 100_000
MOST_WRITTEN: Final = 30
_SHORT_LINES: Final = 100
# What runs beside it for a moment makes a line take longer, never shorter.
_COUNTED_ALIKE: Final = 5
_STDLIB: Final = os.path.dirname(os.__file__) + os.sep
# As `inspect` calls it CO_GENERATOR, which is not imported for that.
_GENERATOR: Final = 0x20
_DECORATING: Final = (contextlib.__file__, functools.__file__)
# An operation of tensors is one of these; those of numbers count too, so that there may be fewer of tensors, never more.
_OPERATIONS: Final = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "COMPARE_OP", "STORE_SUBSCR", "STORE_SLICE", "UNARY_NEGATIVE", "UNARY_INVERT")
_OPCODES: Final = frozenset(code for code, name in enumerate(opcode.opname) if name in _OPERATIONS or name.startswith("BINARY_"))


class LineCounts:
    """Counts lines of one kind of stretch, between `begin` and `end`, but for what runs while this thread makes a batch (`is_making`).

    A stretch that `is_call` is one call of a function, with all that it calls: what had begun before does not go on in it.
    """

    def __init__(
        self,
        note: Callable[[dict[str, Any]], None],
        is_making: Callable[[], bool],
        framework: Framework,
        *,
        of: str = "body",
        is_call: bool = False,
        backwards: Callable[[], int] = lambda: 0,
    ) -> None:
        self._note, self._is_making, self._framework, self._of, self._is_call = note, is_making, framework, of, is_call
        self._backwards = backwards
        self.running = False
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child, which inherits a trace function."""
        if self.running:
            sys.settrace(None)
        self.running, self.stretches = False, 0
        self._counter: _Counter | None = None

    def begin(self, entries: list[Any], wall_s: float, stretches: int = 1) -> None:
        """Begin to count lines of the functions that are worth it, by the profiler's `entries` of `stretches` that took `wall_s` in all."""
        self.running = True
        self.stretches += 1
        most = max(MOST_LINES, min(int(wall_s / stretches * 1e6 / LINE_EACH_US), MOST_OF_LONG)) if self._is_call else MOST_LINES
        rest_s = wall_s - _backward_s(entries, self._framework)
        codes, frame = worthwhile(entries, rest_s, self._framework), None
        libraries: set[CodeType] = set()
        if self._of == "body":
            libraries = called_in_libraries(entries, rest_s, self._framework, by_loop=_is_users_loop(sys._getframe(1), self._framework))
        if not self._is_call and wall_s - sum(entry.inlinetime for entry in entries) >= WORTH_SHARE * rest_s:
            # The rest was spent in functions that had begun before: the training loop itself.
            frame = users_frame(sys._getframe(1))
        self._counter = None
        if sys.gettrace() is None and (codes or libraries or frame is not None):
            called = CallCounter(self._framework, self._backwards)
            self._counter = _Counter(codes, frame, self._is_making, most, called, libraries)
            self._counter.start()

    def end(self, *, keep: bool = True) -> None:
        """End the count and, to `keep` it, write it down."""
        self.running = False
        counter, self._counter = self._counter, None
        if counter is not None:
            counter.stop()
            if keep:
                # Somebody's own trace function, set meanwhile, is not taken away for that.
                each_ns = counting_ns(self._framework) if sys.gettrace() is None else None
                self._note({"kind": "lines", "of": self._of, **counter.result(), "counting_ns": each_ns})


class _Counter:
    """Lines and calls of functions with these `codes`, lines of a `frame` that runs already, and calls alone of those of `libraries`."""

    def __init__(
        self,
        codes: set[CodeType],
        frame: FrameType | None,
        is_making: Callable[[], bool],
        most: int,
        called: CallCounter,
        libraries: set[CodeType] | frozenset[CodeType] = frozenset(),
    ) -> None:
        self._codes, self._libraries, self._frame, self._is_making = codes, libraries, frame, is_making
        self._found: dict[tuple[CodeType, int], list[int]] = {}
        self._called = called
        self._left = most
        self._global = self._build()

    def start(self) -> None:
        sys.settrace(self._global)
        if self._frame is not None:
            self._frame.f_trace = self._local

    def stop(self) -> None:
        # Somebody may have set a trace function of his own meanwhile: that one is not ours to stop.
        if sys.gettrace() is self._global:
            sys.settrace(None)
        if self._frame is not None and self._frame.f_trace is self._local:
            self._frame.f_trace = None
        # Calls that go on are the script's frames, with all that these hold.
        self._frame = None
        self._called.leave()

    def _build(self) -> Callable[[FrameType, str, Any], Any]:
        codes, libraries, found, calls = self._codes, self._libraries, self._found, self._called
        clock, is_making = time.monotonic_ns, self._is_making
        # The line that runs now, and since when.
        current: list[Any] = [None, 0]

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            at_ns = clock()
            last, since_ns = current
            if last is not None:
                last[1] += at_ns - since_ns
            current[0] = None
            if event == "line":
                self._left -= 1
                if self._left < 0:
                    self.stop()
                    frame.f_trace = None
                    return None
                key = (frame.f_code, frame.f_lineno)
                current[0] = found.get(key) or found.setdefault(key, [0, 0])
                current[0][0] += 1
                current[1] = clock()
            elif event == "return":
                calls.end(frame, argument)
            return local

        def local_call(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "return":
                calls.end(frame, argument)
            return local_call

        def called(frame: FrameType, event: str, _: Any) -> Any:
            calls.any_call(frame.f_code)
            is_librarys = frame.f_code in libraries
            if not (is_librarys or frame.f_code in codes) or is_making():
                return None
            calls.begin(frame)
            if is_librarys:
                frame.f_trace_lines = False
                return local_call
            return local

        self._local = local
        return called

    def each_ns(self) -> list[float]:
        """How long each line took, on average."""
        return [ns / n for n, ns in self._found.values()]

    def result(self) -> dict[str, Any]:
        """Lines by time: how often each ran, ns in it, the counting's own time of a line left in, and how many operations it may do;
        `complete` where none was left out.
        """
        rows = sorted(self._found.items(), key=lambda row: -row[1][1])[:MOST_WRITTEN]
        operations = {code: operations_by_line(code) for code in {code for (code, _), _ in rows}}
        lines = [
            {
                "file": code.co_filename,
                "function": code.co_qualname,
                "first_line": code.co_firstlineno,
                "line": line,
                "count": n,
                "ns": ns,
                "operations": operations[code][line],
            }
            for (code, line), (n, ns) in rows
        ]
        return {"complete": self._left >= 0, "lines": lines, "functions": self._called.result()}


def counting_ns(framework: Framework) -> int:
    """What counting adds to a line, in ns: what it finds of lines that do nothing."""
    return int(min(_counting_once_ns(framework) for _ in range(_COUNTED_ALIKE)))


def _counting_once_ns(framework: Framework) -> float:
    counter = _Counter({_do_nothing.__code__}, None, lambda: False, MOST_LINES, CallCounter(framework))
    counter.start()
    _do_nothing()
    counter.stop()
    return min(counter.each_ns(), default=0.0)


def _do_nothing() -> None:
    for _ in range(_SHORT_LINES):
        pass


def worthwhile(entries: list[Any], rest_s: float, framework: Framework) -> set[CodeType]:
    """The user's functions that hold time, their own and that of libraries which they call, from the profiler's entries of stretches that
    took so long without backward.
    """
    users = [entry for entry in entries if isinstance(entry.code, CodeType) and is_users(entry.code.co_filename)]
    return {entry.code for entry in users if entry.inlinetime + _in_libraries_s(entry, framework) >= WORTH_SHARE * rest_s}


def called_in_libraries(entries: list[Any], rest_s: float, framework: Framework, *, by_loop: bool) -> set[CodeType]:
    """The functions of libraries beside the framework that hold time and that the user's call: functions that are among the entries, and
    `by_loop` what had begun before, which is the user's.
    """
    called_s: dict[CodeType, float] = {}
    of_users: set[CodeType] = set()
    for entry in entries:
        for call in entry.calls or ():
            if isinstance(call.code, CodeType):
                called_s[call.code] = called_s.get(call.code, 0.0) + call.totaltime
                if _is_users_code(entry.code):
                    of_users.add(call.code)
    libraries = (entry for entry in entries if isinstance(entry.code, CodeType) and _is_librarys(entry.code.co_filename, framework))
    found = (entry for entry in libraries if entry.totaltime >= WORTH_SHARE * rest_s)
    return {
        entry.code
        for entry in found
        if entry.code in of_users or (by_loop and entry.totaltime - called_s.get(entry.code, 0.0) >= WORTH_SHARE * rest_s)
    }


def _is_users_code(code: Any) -> bool:
    return isinstance(code, CodeType) and is_users(code.co_filename)


def _is_librarys(file: str, framework: Framework) -> bool:
    """Whether it is a library's that is not the framework's, nor what stands between a caller and a function that is decorated."""
    is_other = is_users(file) or file.startswith(("<", PACKAGE)) or framework.owns(file)
    return not (is_other or file.startswith(_DECORATING))


def _is_users_loop(frame: FrameType | None, framework: Framework) -> bool:
    """Whether the innermost function around what has called us is the user's, without generators, which feed it, and the framework's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(PACKAGE) or framework.owns(file) or frame.f_code.co_flags & _GENERATOR):
            return is_users(file)
        frame = frame.f_back
    return False


def _in_libraries_s(entry: Any, framework: Framework) -> float:
    """How long a function was in those of libraries that are written in Python; the framework's are layers of a model, and left out."""
    files = ((float(call.totaltime), call.code.co_filename) for call in entry.calls or () if isinstance(call.code, CodeType))
    return sum(seconds for seconds, file in files if not (is_users(file) or file.startswith(PACKAGE) or framework.owns(file)))


def _backward_s(entries: list[Any], framework: Framework) -> float:
    """How long our hook was in backward, of the profiler's entries."""
    own = (e for e in entries if isinstance(e.code, CodeType) and e.code.co_name == "backward")
    found = (float(e.totaltime) for e in own if _ends(e.code.co_filename, framework.backward_files))
    return max(found, default=0.0)


def _ends(file: str, files: tuple[str, ...]) -> bool:
    return file.replace("\\", "/").endswith(files)


def is_users(file: str) -> bool:
    """Whether a file is neither installed nor generated nor our own."""
    return not (file.startswith(("<", PACKAGE, _STDLIB)) or "-packages" in file)


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's, of this one and its callers."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def operations_by_line(code: CodeType) -> Counter[int]:
    """How many operations each line of a function may do.

    By its instructions; lines without any are left out, and those of functions inside of it are theirs.
    """
    instructions = zip(code.co_code[::2], code.co_positions(), strict=False)
    return Counter(line for number, (line, *_) in instructions if line is not None and number in _OPCODES)
