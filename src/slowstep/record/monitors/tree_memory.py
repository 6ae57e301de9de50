"""Memory of the user's command: what its processes hold, and their page faults.

Resident memory holds pages of files that were mapped and read: a dataset that is read through a map makes it grow, and costs nothing when
memory is short. Those pages are distinguished from what a process has written itself.
"""

from __future__ import annotations

import time

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.system.family import PAGE_BYTES, Sums
from slowstep.record.writing import format as contract


class TreeMemoryReader(Reader):
    """Resident memory now, and page faults so far, of a process tree."""

    def __init__(self, place: MonitoredCommand) -> None:
        self._family, self._proc = place.family, place.proc
        self._files: dict[int, KernelFile] = {}
        self._faults = Sums(2)

    def read(self, now_ns: int) -> list[Reading]:
        """Two readings: resident and own bytes of the tree and of its largest process; faults. Only these once all have ended."""
        self._family.look(now_ns)
        members = self._family.members
        minor, major = self._faults.add_up({pid: (member.parent, member.faults) for pid, member in members.items()})
        readings: list[Reading] = [(contract.READING_FAULTS, minor, major, 0, 0)]
        held = {pid: pages for pid in members if (pages := self._pages(pid)) is not None}
        for pid in self._files.keys() - members.keys():
            self._files.pop(pid).close()
        if held:
            largest = max(held, key=lambda pid: held[pid][1])
            resident, own = (sum(column) * PAGE_BYTES for column in zip(*held.values(), strict=True))
            readings.append((contract.READING_RSS, resident, own, held[largest][1] * PAGE_BYTES, largest))
        return readings

    @property
    def shows_memory(self) -> bool:
        """Whether any process of the last reading did, if there was one."""
        return bool(self._files) or not self._family.members

    def close(self) -> None:
        """Close all kept files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _pages(self, pid: int) -> tuple[int, int] | None:
        """Resident pages, and those of them that are neither a file's nor shared."""
        try:
            if pid not in self._files:
                self._files[pid] = KernelFile(f"{self._proc}/{pid}/statm", 128)
            _, resident, shared = map(int, self._files[pid].read().split()[:3])
        except (Absent, OSError, ValueError):
            return None
        return (resident, resident - shared) if resident else None


def open_tree_memory(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where processes do not show their memory."""
    reader = opened(TreeMemoryReader(place), time.monotonic_ns())
    if not reader.shows_memory:
        reader.close()
        raise Absent("processes do not show their memory")
    return reader


MONITOR = Monitor(name="tree-memory", open=open_tree_memory)
