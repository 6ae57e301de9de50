"""Pressure: for how long tasks of this machine stood still for want of a core, of storage or of memory (Linux 4.20 and later)."""

from __future__ import annotations

import time
from typing import Final

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.writing import format as contract

_US: Final = 1000


class PressureReader(Reader):
    """Cumulative times of standing still, of everybody on the machine, in ns."""

    def __init__(self, files: dict[int, KernelFile]) -> None:
        self._files = files

    def read(self, now_ns: int) -> list[Reading]:
        """A reading for each resource: a ns in which some task waited, b ns in which all did (-1 unknown)."""
        return [(contract.READING_PRESSURE, *parse_pressure(file.read()), 0, index) for index, file in self._files.items()]

    def close(self) -> None:
        """Close all kept files."""
        for file in self._files.values():
            file.close()


def parse_pressure(text: bytes) -> tuple[int, int]:
    """The totals in ns of the lines `some` and `full` (-1 where it has none). Raises ValueError where there is no `some`."""
    total = {line[: line.index(b" ")]: int(line[line.rindex(b"=") + 1 :]) * _US for line in text.splitlines()}
    if b"some" not in total:
        raise ValueError("no line `some`")
    return total[b"some"], total.get(b"full", -1)


def open_pressure(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where the kernel measures no pressure."""
    files: dict[int, KernelFile] = {}
    for index, name in enumerate(contract.PRESSURES):
        try:
            files[index] = KernelFile(f"{place.proc}/pressure/{name}", 256)
        except Absent:
            continue
    if not files:
        raise Absent(f"{place.proc}/pressure", usual=True)
    # A kernel that is told not to measure it shows the files and refuses to have them read.
    return opened(PressureReader(files), time.monotonic_ns(), usual=True)


MONITOR = Monitor(name="pressure", open=open_pressure)
