"""The user's command and all processes below it, read through files that stay open."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from slowstep.record.system import processes

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

# At first children appear quickly; later a search may cost at most a thousandth of a core.
_EAGER_NS: Final = 3_000_000_000
_LEAST_PAUSE_NS: Final = 500_000_000
_PAUSE_PER_COST: Final = 1000
# Each keeps a file open, and a process may usually have 1024.
_MOST_MEMBERS: Final = 400
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Member:
    """One process of the family, as /proc/PID/stat showed it last."""

    __slots__ = ("_fields", "_handle", "parent", "pid")

    def __init__(self, pid: int, proc: str) -> None:
        """Raises OSError or ValueError where it has ended."""
        self.pid = pid
        self._handle = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.look()
            self.parent = int(self._fields[1])
        except (OSError, ValueError, IndexError):
            self.close()
            raise

    def look(self) -> None:
        """Read it anew. Raises OSError or ValueError where it has ended."""
        line = os.pread(self._handle, 4096, 0)
        # The name in parentheses may hold spaces and parentheses itself.
        self._fields = line[line.rindex(b")") + 2 :].split()

    @property
    def cpu_ticks(self) -> int:
        """CPU time so far, with that of its children that ended and were waited for."""
        fields = self._fields
        return int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])

    @property
    def faults(self) -> tuple[int, int]:
        """Minor and major page faults so far, with those of its children that ended and were waited for."""
        minor, minor_below, major, major_below = map(int, self._fields[7:11])
        return minor + minor_below, major + major_below

    @property
    def threads(self) -> int:
        """Threads that it has now."""
        return int(self._fields[17])

    def close(self) -> None:
        """Close its file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class Family:
    """The living processes of a command, `members`, parents before their children. New ones are searched for now and then."""

    def __init__(self, root: int, proc: str = "/proc") -> None:
        self._root, self._proc = root, proc
        self.members: dict[int, Member] = {}
        self._eager_until_ns = time.monotonic_ns() + _EAGER_NS
        self._next_search_ns = 0
        self._looked_ns = -1

    def look(self, now_ns: int) -> None:
        """Read all members, once for each moment; those that ended are no members any more."""
        if now_ns == self._looked_ns:
            return
        self._looked_ns = now_ns
        for pid, member in list(self.members.items()):
            try:
                member.look()
            except (OSError, ValueError):
                member.close()
                del self.members[pid]
        if now_ns >= self._next_search_ns:
            self._search(now_ns)

    def close(self) -> None:
        """Close all kept files."""
        for member in self.members.values():
            member.close()
        self.members.clear()

    def _search(self, now_ns: int) -> None:
        before = time.thread_time_ns()
        for pid in processes.tree(self._root, self._proc):
            if pid not in self.members and len(self.members) < _MOST_MEMBERS:
                self._admit(pid)
        cost_ns = time.thread_time_ns() - before
        pause_ns = 0 if now_ns < self._eager_until_ns else _LEAST_PAUSE_NS
        self._next_search_ns = now_ns + max(pause_ns, cost_ns * _PAUSE_PER_COST)

    def _admit(self, pid: int) -> None:
        try:
            self.members[pid] = Member(pid, self._proc)
        except (OSError, ValueError, IndexError):
            pass


class Sums:
    """Sums of counters over processes that come and go. They never fall.

    What a process had counted when it ended is kept, unless its parent lives: the kernel adds a child's counters to those of a parent that
    waits for it.
    """

    def __init__(self, width: int) -> None:
        self._last: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._kept = [0] * width
        self._most = [0] * width

    def add_up(self, counted: Mapping[int, tuple[int, tuple[int, ...]]]) -> tuple[int, ...]:
        """The sums, given (parent, counters) of each living process."""
        for pid in self._last.keys() - counted.keys():
            if not self._has_living_ancestor(pid, counted):
                self._keep(self._last[pid][1])
        self._last = dict(counted)
        columns: Iterable[tuple[int, ...]] = zip(*(values for _, values in counted.values()), strict=True) if counted else ()
        sums = [sum(column) for column in columns] or [0] * len(self._kept)
        # Between a child's end and its parent's next reading a sum would fall for a moment.
        self._most = [max(most, kept + now) for most, kept, now in zip(self._most, self._kept, sums, strict=True)]
        return tuple(self._most)

    def _has_living_ancestor(self, pid: int, living: Container[int]) -> bool:
        # A parent that ended in the same moment has handed on what it had from its children.
        while pid in self._last:
            pid = self._last[pid][0]
            if pid in living:
                return True
        return False

    def _keep(self, values: tuple[int, ...]) -> None:
        self._kept = [kept + value for kept, value in zip(self._kept, values, strict=True)]
