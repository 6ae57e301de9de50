"""What the user's command reads and writes: bytes that read calls returned, and bytes that came from or went to storage.

Pages that a process maps into its memory count as storage only where they were not cached, and never as read calls.
"""

from __future__ import annotations

import os
import time

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.system.family import Sums
from slowstep.record.writing import format as contract


class TreeIoReader(Reader):
    """Cumulative bytes of a process tree."""

    def __init__(self, place: MonitoredCommand) -> None:
        self._family, self._proc = place.family, place.proc
        self._files: dict[int, KernelFile | None] = {}
        self._sums = Sums(3)

    def read(self, now_ns: int) -> list[Reading]:
        """One reading: a bytes by read calls, b from storage, c to storage."""
        self._family.look(now_ns)
        counted: dict[int, tuple[int, tuple[int, ...]]] = {}
        for pid, member in self._family.members.items():
            counters = self._counters(pid)
            if counters is not None:
                counted[pid] = member.parent, counters
        for pid in self._files.keys() - self._family.members.keys():
            self._drop(pid)
            del self._files[pid]
        called, read, written = self._sums.add_up(counted)
        return [(contract.READING_IO, called, read, written, 0)] if any(self._files.values()) else []

    def close(self) -> None:
        """Close all kept files."""
        for pid in self._files:
            self._drop(pid)
        self._files.clear()

    def _counters(self, pid: int) -> tuple[int, ...] | None:
        # None for a process that this user may not look at, from the first time on.
        try:
            if pid not in self._files:
                self._files[pid] = KernelFile(f"{self._proc}/{pid}/io", 512)
            file = self._files[pid]
            return None if file is None else parse_io(file.read())
        except (Absent, OSError, ValueError):
            self._drop(pid)
            self._files[pid] = None
            return None

    def _drop(self, pid: int) -> None:
        file = self._files.get(pid)
        if file is not None:
            file.close()


def parse_io(text: bytes) -> tuple[int, int, int]:
    """Bytes by read calls, from storage and to storage, of /proc/PID/io. Raises ValueError where they are not there."""
    fields = dict(zip((words := text.split())[::2], words[1::2], strict=False))
    try:
        return int(fields[b"rchar:"]), int(fields[b"read_bytes:"]), int(fields[b"write_bytes:"])
    except KeyError as missing:
        raise ValueError(f"no {missing}") from None


def open_tree_io(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where the kernel counts no bytes per process, or this user may not see them."""
    path = f"{place.proc}/{place.root}/io"
    if not os.access(path, os.R_OK):
        raise Absent(f"{path} cannot be read")
    reader = TreeIoReader(place)
    if not reader.read(time.monotonic_ns()):
        reader.close()
        raise Absent(f"{path} cannot be read")
    return reader


MONITOR = Monitor(name="tree-io", open=open_tree_io)
