"""Disks of this machine: bytes read and written, and for how long each had something to do.

Whole disks only: what a partition, a volume or an array over several disks does is done by those.
"""

from __future__ import annotations

import os
import time
from typing import Final

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.writing import format as contract

# The kernel counts in sectors of this size, whatever the disk's own are (Documentation/admin-guide/iostats.rst).
SECTOR_BYTES: Final = 512
_MS: Final = 1_000_000
_MOST_DISKS: Final = 32


class DiskReader(Reader):
    """Cumulative bytes and busy time of each disk."""

    def __init__(self, statistics: KernelFile, names: list[str]) -> None:
        self._statistics = statistics
        self._index = {name.encode(): index for index, name in enumerate(names)}
        self.facts = [{"kind": "disk", "id": index, "name": name} for index, name in enumerate(names)]

    def read(self, now_ns: int) -> list[Reading]:
        """A reading for each disk that is still there: a bytes read, b bytes written, c ns busy."""
        readings: list[Reading] = []
        for line in self._statistics.read_all().splitlines():
            fields = line.split(None, 13)
            index = self._index.get(fields[2]) if len(fields) > 12 else None
            if index is not None:
                read, written = int(fields[5]) * SECTOR_BYTES, int(fields[9]) * SECTOR_BYTES
                readings.append((contract.READING_DISK, read, written, int(fields[12]) * _MS, index))
        return readings

    def close(self) -> None:
        """Close the kept file."""
        self._statistics.close()


def open_disk(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where no disk is shown, as in many containers."""
    try:
        shown = sorted(os.listdir(f"{place.sys}/block"))
    except OSError as error:
        raise Absent(f"{place.sys}/block: {error.strerror}", usual=True) from None
    # Only what stands on hardware has a `device`.
    names = [name for name in shown if os.path.exists(f"{place.sys}/block/{name}/device")][:_MOST_DISKS]
    if not names:
        raise Absent("no disk is shown", usual=True)
    return opened(DiskReader(KernelFile(f"{place.proc}/diskstats", 16384, usual=True), names), time.monotonic_ns(), usual=True)


MONITOR = Monitor(name="disk", open=open_disk)
