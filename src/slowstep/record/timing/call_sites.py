"""Where in a script of the user's something was called that made a thing, exactly: which call of which line, and what it takes."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from slowstep.record.framework import known_frameworks
from slowstep.record.timing.frame_lines import line_of
from slowstep.record.timing.tracebacks import PACKAGE

_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08
# Of code that has no file: made by a program (the constructor of a data class), or part of the interpreter.
_NO_FILE: Final = "<"


def call_site(above: int, constructor: Any) -> dict[str, Any] | None:
    """The innermost call of a frame that is the user's own, so many frames up or above, as JSON; None where there is none.

    `through` are the frameworks whose frames lie between. `constructor` is what was called in the end.
    """
    frame, between = _way(sys._getframe(above))
    if frame is None:
        return None
    codes = [each.f_code for each in between]
    files = [code.co_filename for code in codes]
    return {
        "file": os.path.abspath(frame.f_code.co_filename),
        "line": line_of(frame),
        **_end_of_call(frame),
        **_parameters(codes, constructor),
        "through": [framework.name for framework in known_frameworks() if any(map(framework.owns, files))],
    }


def is_held(above: int, thing: Any) -> bool:
    """Whether a frame so many frames up or above, short of the user's own, has a thing in one of its variables."""
    _, between = _way(sys._getframe(above))
    return any(value is thing for frame in between for value in frame.f_locals.values())


def _way(frame: FrameType | None) -> tuple[FrameType | None, list[FrameType]]:
    """The innermost frame of the user's own, and those of installed packages before it."""
    between: list[FrameType] = []
    while frame is not None and not _is_users(frame.f_code.co_filename):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            between.append(frame)
        frame = frame.f_back
    return frame, between


def checksum(file: str) -> int | None:
    """That of what a file holds by now (CRC-32); None where it cannot be read."""
    try:
        with open(file, "rb") as source:
            return zlib.crc32(source.read())
    except OSError:
        return None


def _is_users(file: str) -> bool:
    return "-packages" not in file and not file.startswith((PACKAGE, _NO_FILE, _library()))


def _library() -> str:
    """The folder of the standard library."""
    return os.path.dirname(os.__file__) + os.sep


def _end_of_call(frame: FrameType) -> dict[str, int | None]:
    """Where the call ends that a frame is at: its line from 1, its column in bytes of UTF-8 from 0; None where it is not known."""
    _, line, _, column = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return {"end_line": line, "end_column": column}


def _parameters(between: list[CodeType], constructor: Any) -> dict[str, Any]:
    """What the function takes that the user's frame has called; where that hands on whatever it is given, what the constructor takes."""
    codes = [*between[-1:], *_codes(constructor)]
    code = next((each for each in codes if each.co_flags & (_VARARGS | _VARKEYWORDS) != _VARARGS | _VARKEYWORDS), None)
    if code is None:
        return {"takes": [], "takes_any": bool(codes)}
    by_place = 0 if code.co_flags & _VARARGS else code.co_argcount
    return {"takes": list(code.co_varnames[1 : by_place + code.co_kwonlyargcount]), "takes_any": bool(code.co_flags & _VARKEYWORDS)}


def _codes(constructor: Any) -> Iterator[CodeType]:
    """Those of a function, and of what it wraps."""
    seen = 0
    while type(constructor) is FunctionType and seen < 8:
        yield constructor.__code__
        constructor, seen = vars(constructor).get("__wrapped__"), seen + 1
