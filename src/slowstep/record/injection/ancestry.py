"""Finds the recording that an ancestor of this process belongs to, where the environment that named it was wiped."""

from __future__ import annotations

import os
from collections.abc import Iterator

from slowstep.record.writing import format as contract

_NAMES = (contract.ENV_RECORDING, contract.ENV_LEVEL, contract.ENV_STEPS, contract.ENV_SECONDS, contract.ENV_DISABLE)


def find_recording(*, instead: bool = False) -> str | None:
    """Put the recording's variables back into the environment, when an ancestor tells of them; else do nothing. Returns its folder.

    `instead` looks for another one than the environment names.
    """
    if os.environ.get(contract.ENV_DISABLE) or (os.environ.get(contract.ENV_RECORDING) and not instead):
        return None
    for pid in _ancestors():
        found = _from_environment(pid) or _from_open_files(pid)
        if found:
            os.environ.update(found)
            return found[contract.ENV_RECORDING]
    return None


def _from_environment(pid: int) -> dict[str, str]:
    """What an ancestor was started with."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    except OSError:
        return {}
    found = {name: os.fsdecode(variables[name.encode()]) for name in _NAMES if name.encode() in variables}
    return found if _is_recording(found.get(contract.ENV_RECORDING, "")) else {}


def _from_open_files(pid: int) -> dict[str, str]:
    """The launcher itself keeps files of its recording open."""
    try:
        handles = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return {}
    for handle in handles:
        try:
            folder, _, name = os.readlink(f"/proc/{pid}/fd/{handle}").rpartition("/")
        except OSError:
            continue
        if name in (contract.CONTROL_FILE, "launcher.jsonl") and _is_recording(folder):
            return {contract.ENV_RECORDING: folder}
    return {}


def _is_recording(folder: str) -> bool:
    return os.path.isabs(folder) and all(os.path.isfile(os.path.join(folder, name)) for name in (contract.CONTROL_FILE, "launcher.jsonl"))


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name in parentheses may hold spaces and parentheses itself.
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
