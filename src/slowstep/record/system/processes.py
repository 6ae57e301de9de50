"""Processes seen from outside, through /proc: who belongs to a command, and who of them still lives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What /proc says of one process. `start` (clock ticks since boot) tells it from a later one with its number."""

    pid: int
    parent: int
    group: int
    start: int
    ended: bool
    cpu_ticks: int


def parse_stat(line: bytes) -> Stat:
    """One line of /proc/PID/stat. `cpu_ticks` includes children that ended and were waited for."""
    # The name in parentheses may hold spaces and parentheses itself.
    fields = line[line.rindex(b")") + 2 :].split()
    return Stat(
        pid=int(line[: line.index(b" ")]),
        parent=int(fields[1]),
        group=int(fields[2]),
        start=int(fields[19]),
        ended=fields[0] in b"ZXx",
        cpu_ticks=sum(map(int, fields[11:15])),
    )


def read_stat(pid: int) -> Stat | None:
    """The process of that number; None when there is none."""
    line = _read(f"/proc/{pid}/stat")
    return parse_stat(line) if line else None


def started_s(stat: Stat) -> float | None:
    """When a process started, in seconds since 1970; None where the kernel does not say when it started itself."""
    for line in _read("/proc/stat").splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1]) + stat.start / os.sysconf("SC_CLK_TCK")
    return None


def children(pid: int, proc: str = "/proc") -> list[int]:
    """The living children of a process, whichever of its threads started them."""
    try:
        threads = os.listdir(f"{proc}/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        found += map(int, _read(f"{proc}/{pid}/task/{thread}/children").split())
    return found


def tree(root: int, proc: str = "/proc") -> Iterator[int]:
    """A process and all its living descendants, parents first."""
    waiting, seen = [root], {root}
    while waiting:
        pid = waiting.pop()
        yield pid
        for child in children(pid, proc):
            if child not in seen:
                seen.add(child)
                waiting.append(child)


def command_line(pid: int) -> list[str]:
    """The words a process was started with; empty when it has ended or is the kernel's."""
    text = os.fsdecode(_read(f"/proc/{pid}/cmdline"))
    return text.split("\0")[:-1]


def holds_variable(pid: int, name: str, value: str | None = None) -> bool:
    """Whether a process was started with an environment variable (of that value)."""
    wanted = os.fsencode(f"{name}=" if value is None else f"{name}={value}\0")
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    return b"\0" + wanted in environment


def living_with(name: str, value: str) -> list[int]:
    """All living processes of this user, this one apart, that were started with an environment variable of that value."""
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    others = (int(entry) for entry in entries if entry.isdigit() and int(entry) != os.getpid())
    return [pid for pid in others if holds_variable(pid, name, value)]


def still_alive(known: Iterable[tuple[int, int]]) -> list[int]:
    """Those of the (pid, start) pairs whose process has not ended."""
    alive = []
    for pid, start in known:
        stat = read_stat(pid)
        if stat is not None and stat.start == start and not stat.ended:
            alive.append(pid)
    return alive


def _read(path: str) -> bytes:
    # Whole in one go where it fits: a process may end between two reads.
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(handle)
