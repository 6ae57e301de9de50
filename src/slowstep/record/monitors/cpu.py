"""CPU time of the user's command, of everybody on the machine, and what a hypervisor took.

The machine's times count in ticks of 10 ms. A process that ends unseen between two searches for new ones is not lost: its parent's
record holds its time once it is waited for.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Final

from slowstep.record import format as contract
from slowstep.record import processes
from slowstep.record.monitors import Absent, Monitor

TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# At first children appear quickly; later a search may cost at most a thousandth of a core.
_EAGER_NS: Final = 3_000_000_000
_LEAST_PAUSE_NS: Final = 500_000_000
_PAUSE_PER_COST: Final = 1000
_HEAD_BYTES: Final = 256


@dataclass(slots=True)
class _Member:
    handle: int
    parent: int
    ticks: int = 0


class CpuReader:
    """Cumulative CPU time of a process tree and of the machine, in ns."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._machine = _open("/proc/stat")
        self._members: dict[int, _Member] = {}
        self._kept_ticks = 0
        self._total_ticks = 0
        self._eager_until_ns = time.monotonic_ns() + _EAGER_NS
        self._next_search_ns = 0

    def read(self, now_ns: int) -> tuple[int, int, int]:
        """One reading: a CPU ns of the tree, b busy CPU ns of the machine, c stolen CPU ns."""
        if now_ns >= self._next_search_ns:
            self._search(now_ns)
        busy, stolen = _machine_ticks(os.pread(self._machine, _HEAD_BYTES, 0))
        return self._tree_ticks() * TICK_NS, busy * TICK_NS, stolen * TICK_NS

    def close(self) -> None:
        """Close all kept files."""
        for member in self._members.values():
            os.close(member.handle)
        self._members.clear()
        os.close(self._machine)

    def _search(self, now_ns: int) -> None:
        before = time.thread_time_ns()
        for pid in processes.tree(self._root):
            if pid not in self._members:
                self._admit(pid)
        cost_ns = time.thread_time_ns() - before
        pause_ns = 0 if now_ns < self._eager_until_ns else _LEAST_PAUSE_NS
        self._next_search_ns = now_ns + max(pause_ns, cost_ns * _PAUSE_PER_COST)

    def _admit(self, pid: int) -> None:
        try:
            handle = _open(f"/proc/{pid}/stat")
        except Absent:
            return
        try:
            stat = processes.parse_stat(os.pread(handle, 4096, 0))
        except (OSError, ValueError):
            os.close(handle)
            return
        self._members[pid] = _Member(handle, stat.parent, stat.cpu_ticks)

    def _tree_ticks(self) -> int:
        for pid, member in list(self._members.items()):
            try:
                member.ticks = processes.parse_stat(os.pread(member.handle, 4096, 0)).cpu_ticks
            except (OSError, ValueError):
                self._dismiss(pid, member)
        ticks = self._kept_ticks + sum(member.ticks for member in self._members.values())
        # Between a child's end and its parent's next reading the sum would fall for a moment.
        self._total_ticks = max(self._total_ticks, ticks)
        return self._total_ticks

    def _dismiss(self, pid: int, member: _Member) -> None:
        os.close(member.handle)
        del self._members[pid]
        if member.parent not in self._members:
            self._kept_ticks += member.ticks


def _machine_ticks(head: bytes) -> tuple[int, int]:
    # cpu user nice system idle iowait irq softirq steal ...
    fields = head[: head.index(b"\n")].split()
    user, nice, system, _, _, irq, softirq, stolen = map(int, fields[1:9])
    return user + nice + system + irq + softirq, stolen


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Absent(f"{path}: {error.strerror}") from error


def open_cpu(root: int) -> CpuReader:
    """Begin reading; raises Absent where there is no /proc."""
    reader = CpuReader(root)
    try:
        reader.read(time.monotonic_ns())
    except (OSError, ValueError) as error:
        reader.close()
        raise Absent(f"/proc/stat: {error}") from error
    return reader


MONITOR = Monitor(name="cpu", kind=contract.READING_CPU, open=open_cpu)
