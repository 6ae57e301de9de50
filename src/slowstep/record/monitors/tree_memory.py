"""Memory of the user's command: what its processes hold, and their page faults."""

from __future__ import annotations

import time

from slowstep.record import format as contract
from slowstep.record.family import Family, Sums
from slowstep.record.monitors import Monitor, Place, Reader, Reading, opened


class TreeMemoryReader(Reader):
    """Resident memory now, and page faults so far, of a process tree."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._faults = Sums(2)

    def read(self, now_ns: int) -> list[Reading]:
        """Two readings: resident bytes of the tree and of its largest process; faults. Nothing of the former once all have ended."""
        self._family.look(now_ns)
        members = self._family.members
        minor, major = self._faults.add_up({pid: (member.parent, member.faults) for pid, member in members.items()})
        readings: list[Reading] = [(contract.READING_FAULTS, minor, major, 0, 0)]
        held = {pid: member.resident_bytes for pid, member in members.items()}
        if held and (whole := sum(held.values())):
            largest = max(held, key=lambda pid: held[pid])
            readings.append((contract.READING_RSS, whole, held[largest], len(held), largest))
        return readings


def open_tree_memory(place: Place) -> Reader:
    """Begin reading; raises Absent where processes do not show their memory."""
    return opened(TreeMemoryReader(place.family), time.monotonic_ns())


MONITOR = Monitor(name="tree-memory", open=open_tree_memory)
