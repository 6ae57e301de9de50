"""The line in which a frame stands, also where the interpreter knows none."""

from __future__ import annotations

from types import CodeType, FrameType


def line_of(frame: FrameType) -> int:
    """The number of a frame's line, from 1 on.

    The compiler gives the jump back at the end of a loop no line where several lines lead to it, and a thread that has held the
    GIL all through the loop often lets go of it there: that stands for the line before.
    """
    return frame.f_lineno or _line_before(frame.f_code, frame.f_lasti)


def _line_before(code: CodeType, at: int) -> int:
    """The line of the nearest instruction up to offset `at` that has one; the code's first line where there is none."""
    line = code.co_firstlineno
    for start, _, here in code.co_lines():
        if start > at:
            break
        line = here or line
    return line
