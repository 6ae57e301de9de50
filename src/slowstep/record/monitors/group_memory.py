"""Memory of the control group against its limit. File pages that can be dropped count as used there, so they are distinguished."""

from __future__ import annotations

import time

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.system.cgroups import find_memory_limit
from slowstep.record.writing import format as contract


class GroupMemoryReader(Reader):
    """What the group uses now."""

    def __init__(self, used: KernelFile, stat: KernelFile, limit_bytes: int | None) -> None:
        self._used, self._stat = used, stat
        self._limit_bytes = -1 if limit_bytes is None else limit_bytes

    def read(self, now_ns: int) -> list[Reading]:
        """One reading: a bytes used, b limit (-1 none), c of them file pages that can be dropped (-1 unknown)."""
        return [(contract.READING_GROUP_MEMORY, int(self._used.read()), self._limit_bytes, droppable_bytes(self._stat.read()), 0)]

    def close(self) -> None:
        """Close both files."""
        self._used.close()
        self._stat.close()


def droppable_bytes(stat: bytes) -> int:
    """Inactive file pages in memory.stat; -1 where it does not say. Version 1 names the sum over the groups below `total_`."""
    fields = dict(zip((words := stat.split())[::2], words[1::2], strict=False))
    return int(fields.get(b"total_inactive_file", fields.get(b"inactive_file", -1)))


def open_group_memory(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where no control group counts memory."""
    found = find_memory_limit(place.root, proc=place.proc, sys=place.sys)
    if found is None:
        raise Absent("no control group counts memory", usual=True)
    used = KernelFile(found.used, 64, usual=True)
    try:
        stat = KernelFile(f"{found.folder}/memory.stat", 8192, usual=True)
    except Absent:
        used.close()
        raise
    return opened(GroupMemoryReader(used, stat, found.limit_bytes), time.monotonic_ns(), usual=True)


MONITOR = Monitor(name="group-memory", open=open_group_memory)
