"""The process that enters a sandbox and becomes the user's command: `SPEC -- PATH ARGV...`, or `SPEC` alone for a trial."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import tempfile
from typing import Final, NoReturn

from slowstep.prove.sandbox import system, trial
from slowstep.prove.sandbox.enter import enter
from slowstep.prove.sandbox.spec import EntrySpec, loads
from slowstep.record.launching.signals import IGNORED_BY_PYTHON

# The descriptor to which goes why the command could not be started; it closes when the command is.
ENV_STATUS: Final = "SLOWSTEP_STATUS"
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_OWN_FAILURE: Final = 125


def main() -> None:
    """Enter, and go on as the command."""
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = loads(file.read())
    if len(sys.argv) == 2:
        _try_out(spec)
        return
    status = int(os.environ.pop(ENV_STATUS))
    os.set_inheritable(status, False)
    parent = os.getppid()
    try:
        enter(spec)
    except OSError as error:
        _refuse(status, _OWN_FAILURE, f"The sandbox cannot be entered: {error}.")
    # Whoever watches over the command ends with it. Not earlier: entering a namespace takes it back.
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(_OWN_FAILURE)
    _become(status, sys.argv[3], sys.argv[4:])


def _become(status: int, path: str, argv: list[str]) -> NoReturn:
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(path, argv)
    except OSError as error:
        failure = error
    if failure.errno == errno.ENOEXEC:
        # A script without a `#!` line: every shell runs it as its own.
        os.execv("/bin/sh", ["/bin/sh", path, *argv[1:]])
    code = NOT_FOUND if failure.errno == errno.ENOENT else NOT_EXECUTABLE
    _refuse(status, code, f"{path!r} cannot be executed: {failure.strerror}. Check the file, and the interpreter in its first line.")


def _refuse(status: int, code: int, message: str) -> NoReturn:
    os.write(status, json.dumps({"code": code, "message": message}).encode())
    os._exit(code)


def _try_out(spec: EntrySpec) -> None:
    """Enter, and write as the command will; what was found is printed."""
    try:
        closed = enter(spec, is_trial=True)
        answer = {"closed": closed, "write_mb_per_s": trial.write_speed(_written_to(spec))}
    except OSError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def _written_to(spec: EntrySpec) -> str:
    """Where the command would write: its folder; where it may not, the one for temporary files."""
    return spec.cwd if os.access(spec.cwd, os.W_OK) else tempfile.gettempdir()
