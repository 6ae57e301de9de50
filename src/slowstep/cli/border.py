"""The border of every command: whatever is raised inside of it, the user reads one line and gets an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Final

from slowstep.errors import INTERRUPTED_CODE, CommandNotStarted, SlowstepError
from slowstep.faults import FaultOf, is_fault
from slowstep.harmless import harmless

# Where nothing could be said of what was given: as for input that cannot be read.
_FAULT_CODE: Final = SlowstepError.exit_code
_READER_GONE_CODE: Final = 128 + signal.SIGPIPE
# What writing to a stream raises, which has no file's name.
_UNWRITABLE: Final = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)


def ended_by(error: BaseException, words: list[str]) -> int:
    """Say in a line what ended a command line of these words, and return its exit code. Raises again what ends the process itself."""
    if isinstance(error, SlowstepError):
        say(f"slowstep: {error}")
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED_CODE
    if isinstance(error, BrokenPipeError):
        return _READER_GONE_CODE
    if not is_fault(error):
        raise error
    command = words[0] if words and not words[0].startswith("-") else ""
    if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
        say(f"slowstep: the output cannot be written: {error.strerror}. Write it to a place that has room.")
    else:
        say(_of_fault(error, f"slowstep {command}".rstrip()))
    return CommandNotStarted.OWN_FAILURE if command == "run" else _FAULT_CODE


def say(text: str) -> None:
    """Print a line to standard error, if anybody reads it."""
    if sys.stderr is None:
        # It came closed. To print there would print to standard output.
        return
    try:
        print(harmless(text, lines=True), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def ignore_interrupts() -> None:
    """All is said and done: another Ctrl-C has nothing to end but the clean-up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _of_fault(error: BaseException, doing: str) -> str:
    # Imported here: it is needed where something has failed.
    from slowstep.record.launching.folder import kept_words
    from slowstep.report.fault_log import describe

    folder = error.folder if isinstance(error, FaultOf) else None
    cause = error.__cause__ if isinstance(error, FaultOf) and error.__cause__ is not None else error
    kept = f" {kept_words(folder)}" if folder is not None and os.path.isdir(folder) else ""
    return f"slowstep: {describe(cause, doing, folder)}{kept}"
