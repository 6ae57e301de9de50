"""Memory and swap space of the machine."""

from __future__ import annotations

import os
import time
from typing import Final

from slowstep.record.monitors import KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.writing import format as contract

_KIB: Final = 1024
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class MachineMemoryReader(Reader):
    """Memory and swap space free now, and bytes swapped so far."""

    def __init__(self, memory: KernelFile, counters: KernelFile) -> None:
        self._memory, self._counters = memory, counters

    def read(self, now_ns: int) -> list[Reading]:
        """One reading of memory, and one of swap space where the machine has any."""
        memory = self._memory.read()
        readings: list[Reading] = [(contract.READING_MEMORY, kib(memory, b"MemTotal:"), kib(memory, b"MemAvailable:"), 0, 0)]
        if kib(memory, b"SwapTotal:"):
            counters = self._counters.read_all()
            pages = [number(counters, b"\npswpin "), number(counters, b"\npswpout ")]
            readings.append((contract.READING_SWAP, kib(memory, b"SwapFree:"), pages[0] * PAGE_BYTES, pages[1] * PAGE_BYTES, 0))
        return readings

    def close(self) -> None:
        """Close both files."""
        self._memory.close()
        self._counters.close()


def kib(text: bytes, name: bytes) -> int:
    """A line of /proc/meminfo in bytes. Raises ValueError where it is not there."""
    return number(text, name) * _KIB


def number(text: bytes, before: bytes) -> int:
    """The number behind a name. Raises ValueError where it is not there."""
    at = text.index(before) + len(before)
    return int(text[at : at + 32].split(None, 1)[0])


def open_machine_memory(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where there is no /proc."""
    memory = KernelFile(f"{place.proc}/meminfo")
    return opened(MachineMemoryReader(memory, KernelFile(f"{place.proc}/vmstat", 16384)), time.monotonic_ns())


MONITOR = Monitor(name="machine-memory", open=open_machine_memory)
