"""Network of this machine: bytes received and sent, those to itself (loopback) apart.

Only interfaces that stand on hardware are counted, where there are any: a bridge, a bond or a tunnel hands on what those have counted.
"""

from __future__ import annotations

import os
import time

from slowstep.record.monitors import KernelFile, Monitor, MonitoredCommand, Reader, Reading, opened
from slowstep.record.writing import format as contract


class NetworkReader(Reader):
    """Cumulative bytes of all interfaces together, and of the loopback."""

    def __init__(self, statistics: KernelFile, hardware: frozenset[bytes]) -> None:
        self._statistics, self._hardware = statistics, hardware

    def read(self, now_ns: int) -> list[Reading]:
        """A reading for the loopback and one for all others: a bytes received, b bytes sent."""
        sums: dict[int, tuple[int, int]] = {}
        for line in self._statistics.read_all().splitlines():
            name, colon, rest = line.partition(b":")
            name = name.strip()
            if not colon or not (name == b"lo" or not self._hardware or name in self._hardware):
                continue
            fields = rest.split(None, 9)
            index = int(name == b"lo")
            received, sent = sums.get(index, (0, 0))
            sums[index] = received + int(fields[0]), sent + int(fields[8])
        return [(contract.READING_NETWORK, received, sent, 0, index) for index, (received, sent) in sums.items()]

    def close(self) -> None:
        """Close the kept file."""
        self._statistics.close()


def open_network(place: MonitoredCommand) -> Reader:
    """Begin reading; raises Absent where no network is shown."""
    # Of this process's own network: a command seldom has another.
    statistics = KernelFile(f"{place.proc}/net/dev", 16384)
    return opened(NetworkReader(statistics, _hardware(f"{place.sys}/class/net")), time.monotonic_ns())


def _hardware(folder: str) -> frozenset[bytes]:
    try:
        names = os.listdir(folder)
    except OSError:
        return frozenset()
    return frozenset(name.encode() for name in names if os.path.exists(f"{folder}/{name}/device"))


MONITOR = Monitor(name="network", open=open_network)
