"""The launcher's lines in its journal: who it is, what it runs, how that ended."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
from typing import TYPE_CHECKING

from slowstep.record import format as contract
from slowstep.record.redact import known_variables, redact_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slowstep.record.command import Command
    from slowstep.record.journal import Journal


def note_start(journal: Journal, command: Command, environ: Mapping[str, str], *, level: int, warmup: int | None, stop: bool) -> None:
    """Write the lines `process` and `run`, before the command is started."""
    now_ns = time.monotonic_ns()
    journal.note(
        "process",
        format=contract.FORMAT_VERSION,
        pid=os.getpid(),
        ppid=os.getppid(),
        started_ns=now_ns,
        realtime_ns=time.time_ns(),
        boot_id=_boot_id(),
        role="launcher",
        argv=redact_command(sys.argv),
        executable=sys.executable,
        python=platform.python_version(),
        torch=None,
        script=None,
        cwd=os.getcwd(),
        cores_allowed=_cores_allowed(),
        cpu_quota=None,
        level=level,
        env=known_variables(environ),
    )
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    words = redact_command(command.argv)
    journal.note("run", name=command.stem, command=words, started=started, started_ns=now_ns, warmup=warmup, stop=stop)


def note_end(journal: Journal, *, exit_code: int, ended_ns: int, sent: Sequence[str] | None) -> None:
    """Write the line `exit`; `sent` are the signals of --stop, None when it was not used."""
    by = "script" if not sent else "slowstep --stop"
    journal.note("exit", code=exit_code, ended_ns=ended_ns, by=by, signals=list(sent or ()))
    if journal.lost:
        journal.health("launcher-records-lost", "data_loss", "The disk was full: make room and record again.", count=journal.lost)


def _cores_allowed() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None
