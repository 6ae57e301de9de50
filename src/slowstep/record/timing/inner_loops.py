"""The loops inside a function, and its blocks with an open file, by its bytecode: the source may have changed since, or there is none."""

from __future__ import annotations

import dis
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.timing.frame_lines import line_of
from slowstep.record.timing.tracebacks import PACKAGE

# Every loop goes on by a jump back; so does waiting for a coroutine, which is none.
_BACK: Final = "JUMP_BACKWARD"
_WAITING: Final = "NO_INTERRUPT"
# Where a `with` block goes on after an exception, whatever Python's version; and the names that open files: open, gzip.open, ZipFile.
_BLOCK: Final = "WITH_EXCEPT_START"
_OPENS: Final = re.compile(r"open|File$")

# Disassembling takes 1.1 us a byte, 5 us an instruction, once and beside the training: of larger functions, as of a script of thousands of
# lines, nothing is known.
MOST_CODE: Final = 50_000


def is_too_large(code: CodeType) -> bool:
    """Whether a function is not disassembled."""
    return len(code.co_code) > MOST_CODE


def inner_loops(code: CodeType, line: int) -> list[list[int]]:
    """First and last line of the outermost loops of a function, and blocks with an open file, that do not hold `line`, in order.

    One that is written on one line is left out: that line says as much.
    """
    outermost: list[list[int]] = []
    for first, last in sorted([*_loops(code, line), *_open_files(code)], key=lambda span: (span[0], -span[1])):
        if first < last and not first <= line <= last and (not outermost or first > outermost[-1][1]):
            outermost.append([first, last])
    return outermost


def loop_around(code: CodeType, line: int) -> list[list[int]]:
    """First and last line of the innermost loop of a function that holds `line`; none where it is in no loop."""
    around = [[first, last] for first, last in _loops(code, line) if first <= line <= last]
    return [min(around, key=lambda span: span[1] - span[0])] if around else []


def jumps_back(steps: Iterable[dis.Instruction]) -> dict[int, int]:
    """Where each loop begins and ends, as offsets of instructions."""
    # One loop has as many jumps back as it has ways to go on: it ends with the last one.
    return {step.argval: step.offset for step in steps if _BACK in step.opname and _WAITING not in step.opname}


def _loops(code: CodeType, otherwise: int) -> list[tuple[int, int]]:
    """First and last line of all loops of a function; `otherwise` where those are not known."""
    steps = list(dis.get_instructions(code))
    at, spans = [step.offset for step in steps], []
    for begin, end in jumps_back(steps).items():
        inside = steps[bisect_left(at, begin) : bisect_right(at, end)]
        lines = [step.positions.lineno for step in inside if step.positions and step.positions.lineno]
        spans.append((min(lines, default=otherwise), max(lines, default=otherwise)))
    return spans


def _open_files(code: CodeType) -> list[tuple[int, int]]:
    """First and last line of all blocks `with open(...)`. What is written in one goes to the file when it ends, in its first line, too."""
    steps, handlers = list(dis.get_instructions(code)), getattr(dis.Bytecode(code), "exception_entries", ())
    at, spans = [step.offset for step in steps], []
    for number, step in enumerate(steps):
        first = step.positions.lineno if step.positions else None
        if step.opname != _BLOCK or first is None or not any(_opens(other, first) for other in steps):
            continue
        # The handler begins with the instruction before this one.
        guarded = [each for each in handlers if each.target == steps[number - 1].offset]
        inside = [other for each in guarded for other in steps[bisect_left(at, each.start) : bisect_left(at, each.end)]]
        lines = [other.positions.lineno for other in inside if other.positions and other.positions.lineno]
        spans.append((first, max(lines, default=first)))
    return spans


def _opens(step: dis.Instruction, line: int) -> bool:
    """Whether an instruction of that line names what opens a file."""
    is_there = step.positions is not None and step.positions.lineno == line
    return is_there and isinstance(step.argval, str) and step.opname.startswith("LOAD_") and bool(_OPENS.search(step.argval))


def loops_beside(frame: FrameType | None) -> list[list[Any]]:
    """For each of the user's functions a call came through, its loops and open files beside it: [file, function, first line, lines]."""
    return _of_callers(frame, inner_loops)


def loops_around(frame: FrameType | None) -> list[list[Any]] | None:
    """The same with the innermost loop that the call is in, of functions that have one; None where one of these is not disassembled."""
    return None if any(is_too_large(each.f_code) for each in _callers(frame)) else _of_callers(frame, loop_around)


def _of_callers(frame: FrameType | None, find: Callable[[CodeType, int], list[list[int]]]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for each in _callers(frame):
        code = each.f_code
        loops = [] if is_too_large(code) else find(code, line_of(each))
        if loops:
            found.append([code.co_filename, code.co_qualname, code.co_firstlineno, loops])
    return found


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Those in the user's functions."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<frozen ")) and "-packages" not in name:
            yield frame
        frame = frame.f_back
