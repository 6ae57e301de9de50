"""The launcher's lines in its journal: who it is, what it runs, how that ended."""

from __future__ import annotations

import datetime
import os
import time
from typing import TYPE_CHECKING, Any

from slowstep.record.system.facts import process_line
from slowstep.record.system.place import host_name
from slowstep.record.system.redact import redact_command
from slowstep.record.writing.health_kinds import LAUNCHER_RECORDS_LOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slowstep.record.launching.command import Command
    from slowstep.record.launching.journal import Journal
    from slowstep.record.system.place import LauncherRank


def note_start(
    journal: Journal,
    command: Command,
    *,
    level: int,
    warmup: int | None,
    stop: bool,
    place: LauncherRank | None = None,
    levers: Sequence[str] = (),
    steps: int | None = None,
    seconds: float | None = None,
    capture: Sequence[int] | None = None,
) -> None:
    """Write the lines `process` and `run`, before the command is started: what was asked for too, to be asked for again."""
    now_ns = time.monotonic_ns()
    journal.note(**process_line({"role": "launcher"}, level=level, started_ns=now_ns))
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    words = redact_command(command.words)
    more: dict[str, Any] = {} if place is None else {"launcher_rank": place.rank, "launchers": place.size}
    if levers:
        more["levers"] = list(levers)
    asked = {"steps": steps, "seconds": seconds, "capture": None if capture is None else list(capture)}
    more |= {name: value for name, value in asked.items() if value is not None}
    host = host_name(os.environ) if place is None else place.host
    journal.note("run", name=command.stem, command=words, started=started, started_ns=now_ns, warmup=warmup, stop=stop, host=host, **more)


def note_end(
    journal: Journal,
    *,
    exit_code: int,
    ended_ns: int,
    sent: Sequence[str] | None,
    received: Sequence[str] = (),
    told: Sequence[str] | None = None,
) -> None:
    """Write the line `exit`; `sent` are the signals of --stop, None when it was not used, `received` those by which others ask to end.

    `told` is what the command's processes told of themselves, None where some of them could not.
    """
    by = "script" if not sent else "slowstep --stop"
    signals = {"signals": list(sent or ()), "received": list(received), "told": told}
    journal.note("exit", code=exit_code, ended_ns=ended_ns, by=by, **journal.written, **signals)
    if journal.lost:
        journal.health(LAUNCHER_RECORDS_LOST, journal.lost)
