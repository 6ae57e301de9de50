"""What a launcher that was killed could not take away: the injected folder and the control page of its recording.

They are taken away later, and only where nobody lives who could use them: not the launcher, not a process that it recorded, and none that
was started with the recording in its environment.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Final

from slowstep.record.injection.inject import INJECT_FOLDER, remove_injection
from slowstep.record.system import processes
from slowstep.record.system.facts import boot_id, process_ids
from slowstep.record.writing import format as contract

# A recording whose processes may not be seen from here, as those of another machine or container, is written to ten times a second while
# it goes on; clocks of file servers differ by minutes.
QUIET_S: Final = 3600.0
_LAUNCHER: Final = "launcher.jsonl"
# Other files may lie there, too.
_NOTES_OF: Final = re.compile(r"([0-9]{1,10})-.*\.jsonl\Z", re.DOTALL)
# The first line of a process's notes has some kilobytes.
_FIRST_LINE_BYTES: Final = 65536


def remove_leftovers(folder: str) -> bool:
    """Take away what a dead launcher has left in its recording. Returns whether there was any, and nobody left who could use it."""
    try:
        if not _has_leftovers(folder) or not _is_dead(folder):
            return False
        remove_injection(folder)
    except OSError:
        return False
    return True


def remove_leftovers_of_starts(folder: str) -> None:
    """The same in a recording and in those of later starts below it."""
    for place in (folder, *_folders_in(os.path.join(folder, contract.LATER_STARTS_FOLDER))):
        remove_leftovers(place)


def remove_leftovers_in(parent: str, *, but: str) -> None:
    """The same in every recording of a folder of recordings but one."""
    for folder in _folders_in(parent):
        if folder != but:
            remove_leftovers_of_starts(folder)


def _folders_in(parent: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _has_leftovers(folder: str) -> bool:
    left = (INJECT_FOLDER, contract.CONTROL_FILE)
    return os.path.isfile(os.path.join(folder, _LAUNCHER)) and any(os.path.exists(os.path.join(folder, name)) for name in left)


def _is_dead(folder: str) -> bool:
    launcher = _first_line(os.path.join(folder, _LAUNCHER))
    pid, seen_from = launcher.get("pid"), (launcher.get("boot_id"), launcher.get("process_ids"))
    if not isinstance(pid, int) or (seen_from != (boot_id(), process_ids()) and not _is_quiet(folder)):
        return False
    pids = {pid, *(int(match[1]) for name in os.listdir(folder) if (match := _NOTES_OF.match(name)))}
    return not any(map(_lives, pids)) and not processes.living_with(contract.ENV_RECORDING, os.path.abspath(folder))


def _first_line(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        line = file.readline(_FIRST_LINE_BYTES)
    try:
        note = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _is_quiet(folder: str) -> bool:
    written_s = max((entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder)), default=0.0)
    return time.time() - written_s > QUIET_S


def _lives(pid: int) -> bool:
    # A later process may have got the number: what is left then waits for its end, too.
    stat = processes.read_stat(pid)
    return stat is not None and not stat.ended
