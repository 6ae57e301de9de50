"""Finds the line of the user's own code that called into a framework."""

from __future__ import annotations

import os
import sys
from dis import opmap, opname
from functools import cache
from itertools import islice
from types import FrameType
from typing import Any, Final

from slowstep.record.framework import known_frameworks
from slowstep.record.timing.frame_lines import line_of
from slowstep.record.timing.tracebacks import PACKAGE

_CACHE: Final = opmap.get("CACHE", 0)
# As deep as the stack sampler looks.
_DEEPEST: Final = 128
# Functions of the user's between a loop and what it calls: what is farther away is around the loop.
_MOST_AROUND: Final = 16


def training_frame(frame: FrameType | None) -> dict[str, Any] | None:
    """The innermost frame outside slowstep and the frameworks: file, function, line and first line."""
    while frame is not None:
        code = frame.f_code
        if not _is_framework(code.co_filename):
            return {"file": code.co_filename, "function": code.co_qualname, "line": line_of(frame), "first_line": code.co_firstlineno}
        frame = frame.f_back
    return None


def call_path(frame: FrameType | None) -> dict[str, list[Any]]:
    """The frames that lead into what computes, root first, as [file, function, first line, line]; frames of slowstep are left out. The
    calls that they are in, as [column, last line, last column], None where that is not known: an argument may stand in a line below.
    """
    while frame is not None and (frame.f_code.co_filename.startswith(PACKAGE) or _computes(frame.f_code.co_filename)):
        frame = frame.f_back
    frames: list[list[Any]] = []
    calls: list[list[int] | None] = []
    while frame is not None and len(frames) < _DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            frames.append([code.co_filename, code.co_qualname, code.co_firstlineno, line_of(frame)])
            calls.append(call_of(frame))
        frame = frame.f_back
    frames.reverse()
    calls.reverse()
    return {"frames": frames, "calls": calls}


def call_of(frame: FrameType) -> list[int] | None:
    """The call that a frame is in, as [column, last line, last column]; None where that is not known, or where it is in no call: the next
    turn of a loop, or the end of a block, has the text of all of it.
    """
    code, at = frame.f_code, frame.f_lasti
    instructions = code.co_code
    # A frame that has called a function in Python may stand behind what the interpreter caches of the call.
    while at > 0 and instructions[at] == _CACHE:
        at -= 2
    if "CALL" not in opname[instructions[at]]:
        return None
    line, last_line, column, last_column = next(islice(code.co_positions(), at // 2, None), (None,) * 4)
    if line != frame.f_lineno or last_line is None or column is None or last_column is None:
        return None
    return [column, last_line, last_column]


def functions_around(frame: FrameType | None) -> list[list[Any]]:
    """The innermost functions outside slowstep and installed packages, innermost first, as [file, function, first line]."""
    found: list[list[Any]] = []
    while frame is not None and len(found) < _MOST_AROUND:
        code = frame.f_code
        if "-packages" not in code.co_filename and not code.co_filename.startswith((PACKAGE, "<frozen ")):
            found.append([code.co_filename, code.co_qualname, code.co_firstlineno])
        frame = frame.f_back
    return found


def is_updating() -> bool:
    """Whether the calling thread is inside a framework's own code around an update, where the list of hooks is walked."""
    files = tuple(file.replace("/", os.sep) for framework in known_frameworks() for file in framework.update_files)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(files):
            return True
        frame = frame.f_back
    return False


def _is_framework(file: str) -> bool:
    if file.startswith((PACKAGE, "<frozen ")):
        return True
    # Only installed packages: a script of the user's may live in a folder of that name.
    return "-packages" in file and any(name in file for name in _folders())


@cache
def _folders() -> tuple[str, ...]:
    return tuple(f"{os.sep}{package}{os.sep}" for framework in known_frameworks() for package in framework.packages)


def _computes(file: str) -> bool:
    """Whether a file is of a framework that has more than a loop."""
    return any(framework.module is not None and framework.owns(file) for framework in known_frameworks())
