"""Which exception ends a process: its exit code alone, or a launcher's above it, does not tell a Ctrl-C from an error of the script."""

from __future__ import annotations

import sys


def uncaught() -> str | None:
    """The class's name of the exception that nobody caught; None where there was none. To be asked when the interpreter ends.

    Python keeps it for debuggers when it prints a traceback: SystemExit, which prints none, is not among them, nor what ended a thread.
    """
    kind = getattr(sys, "last_type", None)
    return kind.__name__ if isinstance(kind, type) else None
