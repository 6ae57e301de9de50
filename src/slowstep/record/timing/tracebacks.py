"""Keeps slowstep out of the training's tracebacks, and tells its own faults from what a signal handler raised inside it."""

from __future__ import annotations

import os
import signal
import sys
from types import CodeType, TracebackType
from typing import Any, Final

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def uncaught() -> str | None:
    """The class's name of the exception that nobody caught; None where there was none. To be asked when the interpreter ends.

    Python keeps it for debuggers when it prints a traceback: SystemExit, which prints none, is not among them, nor what ended a thread.
    """
    kind = getattr(sys, "last_type", None)
    return kind.__name__ if isinstance(kind, type) else None


def innermost_frame(error: BaseException) -> TracebackType | None:
    """Where an exception was raised; None for one that never was."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return found


def is_from_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of the script's has raised it: it ran while we worked, and its exception is meant for the script."""
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code in codes:
            return True
        entry = entry.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """The code of a function, a method, a partial of one, or an object that is called."""
    function = getattr(handler, "func", handler)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) else None


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of slowstep that the exception passed through."""
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(traceback)
        traceback = traceback.tb_next
    result = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def clean(error: BaseException | None) -> None:
    """Take our frames out of the traceback of an exception and of those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = without_own_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def hide_own_frames() -> None:
    """Print an uncaught exception without our frames. Called when one has passed through us; a script's own hook is left alone."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_without_own_frames


def show_own_frames() -> None:
    """Put Python's own way of printing an uncaught exception back."""
    if sys.excepthook is _print_without_own_frames:
        sys.excepthook = sys.__excepthook__


def _print_without_own_frames(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> Any:
    clean(error)
    return sys.__excepthook__(kind, error, error.__traceback__)
