"""The user's command as a child: started as a shell would, waited for without taking anything from it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from slowstep.errors import CommandNotStarted
from slowstep.record.launching.signals import IGNORED_BY_PYTHON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.record.launching.command import Command


def start_command(command: Command, environ: Mapping[str, str], *, mask: set[int]) -> int:
    """Start a command in this process group, terminal and folder, with these streams and that signal mask; return its process number.

    Raises CommandNotStarted (126) when the system refuses to execute it.
    """
    try:
        return _spawn(command.path, command.argv, environ, mask)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _refused(command, error) from error
    # A script without a `#!` line: every shell runs it as its own.
    try:
        return _spawn("/bin/sh", ("/bin/sh", command.path, *command.argv[1:]), environ, mask)
    except OSError as error:
        raise _refused(command, error) from error


def has_ended(pid: int) -> bool:
    """Whether the child has ended; it stays readable in /proc until `collect`."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def collect(pid: int) -> int:
    """Take leave of the ended child: its exit code, 128 + n when signal n ended it."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _spawn(path: str, argv: tuple[str, ...], environ: Mapping[str, str], mask: set[int]) -> int:
    # Not subprocess: it closes files that the user meant to pass on, and runs with whatever mask slowstep has now.
    return os.posix_spawn(path, argv, dict(environ), setsigmask=mask, setsigdef=IGNORED_BY_PYTHON)


def _refused(command: Command, error: OSError) -> CommandNotStarted:
    code = CommandNotStarted.NOT_FOUND if error.errno == errno.ENOENT else CommandNotStarted.NOT_EXECUTABLE
    return CommandNotStarted(
        f"{command.path!r} cannot be executed: {error.strerror}. Check the file, and the interpreter in its first line.", exit_code=code
    )
