"""The cores that the processes of the user's command may use, which libraries change after they are imported.

A thread library that binds its threads gives each a core of its own, the main thread too: what a process computes on is the cores of all
such threads together. Threads with more cores than the main thread were made before those were taken away, and are left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from slowstep.record.monitors import Absent, Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from collections.abc import Callable

# A process with more is looked at by its first threads; those have the cores of all where the library binds them one by one.
_MOST_THREADS: Final = 64
# A reading holds the numbers of cores below this one, a bit each.
_MOST_CORES: Final = 62


class AffinityReader(Reader):
    """Cores allowed, per process, said when they change."""

    def __init__(self, place: MonitoredCommand, cores_of: Callable[[int], set[int]]) -> None:
        self._family, self._proc, self._cores_of = place.family, place.proc, cores_of
        self._said: dict[int, tuple[int, int, int]] = {}

    def read(self, now_ns: int) -> list[Reading]:
        """A reading for each process in which something is new: a cores of threads bound as tightly as the main thread, b its own, c which
        the first are.
        """
        self._family.look(now_ns)
        readings: list[Reading] = []
        for pid in self._family.members:
            allowed = self._allowed(pid)
            if allowed is not None and allowed != self._said.get(pid):
                self._said[pid] = allowed
                readings.append((contract.READING_AFFINITY, *allowed, pid))
        for pid in self._said.keys() - self._family.members.keys():
            del self._said[pid]
        return readings

    def _allowed(self, pid: int) -> tuple[int, int, int] | None:
        try:
            main = self._cores_of(pid)
            threads = sorted(map(int, os.listdir(f"{self._proc}/{pid}/task")))[:_MOST_THREADS]
        except (OSError, ValueError):
            return None
        together = set(main)
        for thread in threads:
            try:
                own = self._cores_of(thread)
            except OSError:
                continue  # it has ended meanwhile
            if len(own) <= len(main):
                together |= own
        return len(together), len(main), _bits(together)


def _bits(cores: set[int]) -> int:
    """0 where one of them has a larger number than fits."""
    return sum(1 << core for core in cores) if max(cores, default=_MOST_CORES) < _MOST_CORES else 0


def open_affinity(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where the system binds nothing to cores."""
    if not hasattr(os, "sched_getaffinity"):
        raise Absent("this system does not say which cores a process may use")
    return AffinityReader(place, os.sched_getaffinity)


MONITOR = Monitor(name="affinity", open=open_affinity)
