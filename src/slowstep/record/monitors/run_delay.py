"""How long the threads of the user's command stood in a queue for a core.

A training's own threads compete as well as others': the delay says how much was waited, not for whom.
"""

from __future__ import annotations

import os
from typing import Final

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.system.family import Member
from slowstep.record.writing import format as contract

_SEARCH_EVERY_NS: Final = 5_000_000_000
# Each keeps a file open.
_MOST_THREADS: Final = 200


class RunDelayReader(Reader):
    """Cumulative run-queue delay of the threads of a process tree, in ns."""

    def __init__(self, place: MonitoredCommand) -> None:
        self._family, self._proc = place.family, place.proc
        self._files: dict[int, KernelFile] = {}
        self._last: dict[int, int] = {}
        self._ended_ns = 0
        self._search_due_ns = 0

    def read(self, now_ns: int) -> list[Reading]:
        """One reading: a delay ns, b threads watched, c threads of the tree."""
        self._family.look(now_ns)
        members = self._family.members
        if now_ns >= self._search_due_ns:
            self._search_due_ns = now_ns + _SEARCH_EVERY_NS
            for member in members.values():
                self._search(member)
        for thread, file in list(self._files.items()):
            try:
                self._last[thread] = delay_ns(file.read())
            except (OSError, ValueError, IndexError):
                self._dismiss(thread)
        delay = self._ended_ns + sum(self._last.values())
        threads = sum(member.threads for member in members.values())
        return [(contract.READING_DELAY, delay, len(self._files), threads, 0)]

    def close(self) -> None:
        """Close all kept files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _search(self, member: Member) -> None:
        try:
            threads = map(int, os.listdir(f"{self._proc}/{member.pid}/task"))
            for thread in threads:
                if thread not in self._files and len(self._files) < _MOST_THREADS:
                    self._admit(member.pid, thread)
        except (OSError, ValueError):
            pass  # it has ended meanwhile

    def _admit(self, pid: int, thread: int) -> None:
        try:
            self._files[thread] = KernelFile(f"{self._proc}/{pid}/task/{thread}/schedstat", 64)
        except Absent:
            return

    def _dismiss(self, thread: int) -> None:
        self._files.pop(thread).close()
        self._ended_ns += self._last.pop(thread, 0)


def delay_ns(schedstat: bytes) -> int:
    """The second of three numbers. Raises ValueError or IndexError where the line is another."""
    return int(schedstat.split(None, 2)[1])


def open_run_delay(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where the kernel does not keep the delay."""
    KernelFile(f"{place.proc}/{place.root}/schedstat", 64).close()
    return RunDelayReader(place)


MONITOR = Monitor(name="run-delay", open=open_run_delay)
