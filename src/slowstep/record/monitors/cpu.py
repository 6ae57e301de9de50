"""CPU time of the user's command, of everybody on the machine, and what a hypervisor took; the machine's idle time.

The machine's times count in ticks of 10 ms. A process that ends unseen between two searches for new ones is not lost: its parent's
record holds its time once it is waited for.
"""

from __future__ import annotations

import os
import time
from typing import Final

from slowstep.record.monitors import KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.system.family import Family, Sums
from slowstep.record.writing import format as contract

TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_HEAD_BYTES: Final = 256


class CpuReader(Reader):
    """Cumulative CPU time of a process tree and of the machine, in ns."""

    def __init__(self, family: Family, machine: KernelFile) -> None:
        self._family, self._machine = family, machine
        self._tree = Sums(1)

    def read(self, now_ns: int) -> list[Reading]:
        """Two readings: CPU time of the tree, busy and stolen time of the machine; idle time and waiting for storage."""
        self._family.look(now_ns)
        (tree,) = self._tree.add_up({pid: (member.parent, (member.cpu_ticks,)) for pid, member in self._family.members.items()})
        busy, idle, waiting, stolen = machine_ticks(self._machine.read())
        return [
            (contract.READING_CPU, tree * TICK_NS, busy * TICK_NS, stolen * TICK_NS, 0),
            (contract.READING_TIMES, idle * TICK_NS, waiting * TICK_NS, 0, 0),
        ]

    def close(self) -> None:
        """Close the machine's file."""
        self._machine.close()


def machine_ticks(head: bytes) -> tuple[int, int, int, int]:
    """Busy, idle, waiting for storage and stolen, of all cores added. Raises ValueError where the line is another."""
    # cpu user nice system idle iowait irq softirq steal ...
    fields = head[: head.index(b"\n")].split()
    user, nice, system, idle, waiting, irq, softirq, stolen = map(int, fields[1:9])
    return user + nice + system + irq + softirq, idle, waiting, stolen


def open_cpu(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where there is no /proc."""
    return opened(CpuReader(place.family, KernelFile(f"{place.proc}/stat", _HEAD_BYTES)), time.monotonic_ns())


MONITOR = Monitor(name="cpu", open=open_cpu, every_s=0.1)
