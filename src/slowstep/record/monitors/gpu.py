"""NVIDIA devices: use, memory, clocks, what lowers them, power, temperature, the PCIe link, and who else computes there."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.device.nvml import Device, Nvml, NvmlMissing
from slowstep.record.monitors import Absent, Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from slowstep.record.system.family import Family

# Why clocks are lowered does not fit into 63 bits only in theory; the highest bit in use is the ninth.
_MOST: Final = (1 << 63) - 1


class GpuReader(Reader):
    """All devices of the machine, once a second."""

    def __init__(self, library: Nvml, devices: list[Device], family: Family) -> None:
        self._library, self._devices, self._family = library, devices, family
        self._turn = 0
        self.facts = [_facts(device) for device in devices]

    def read(self, now_ns: int) -> list[Reading]:
        """Readings of each device; what one does not know is -1."""
        self._family.look(now_ns)
        readings = [reading for device in self._devices for reading in self._of(device)]
        readings.append(self._copied())
        return readings

    def close(self) -> None:
        """Let go of the driver."""
        self._library.close()

    def _of(self, device: Device) -> list[Reading]:
        index = device.index
        use, memory, link = device.utilization(), device.memory_bytes(), device.link()
        readings: list[Reading] = [
            (contract.READING_GPU_USE, *(use or (-1, -1)), memory[1] if memory else -1, index),
            (contract.READING_GPU_CLOCK, _known(device.sm_mhz()), _known(device.memory_mhz()), _known(device.state()), index),
            (contract.READING_GPU_LIMIT, _known(device.lowered_by()), _known(device.power_mw()), _known(device.temperature_c()), index),
            (contract.READING_GPU_LINK, *(link or (-1, -1)), 0, index),
        ]
        processes = device.processes()
        if processes is not None:
            own = processes.keys() & self._family.members.keys()
            others = [held for pid, held in processes.items() if pid not in own]
            held = -1 if None in others else sum(held or 0 for held in others)
            readings.append((contract.READING_GPU_TENANTS, len(own), len(others), held, index))
        return readings

    def _copied(self) -> Reading:
        # Each such call takes 20 ms: one a second, in turn.
        device = self._devices[self._turn // 2 % len(self._devices)]
        receives = self._turn % 2 == 0
        self._turn += 1
        rate = _known(device.received_per_s() if receives else device.sent_per_s())
        return (contract.READING_GPU_COPIED, rate if receives else -1, -1 if receives else rate, 0, device.index)


def _known(value: int | None) -> int:
    return -1 if value is None else min(value, _MOST)


def _facts(device: Device) -> dict[str, Any]:
    memory, link = device.memory_bytes(), device.link(most=True)
    return {
        "kind": "gpu",
        "id": device.index,
        "name": device.name(),
        "uuid": device.uuid(),
        "memory_bytes": memory[0] if memory else None,
        "most_sm_mhz": device.sm_mhz(most=True),
        "most_memory_mhz": device.memory_mhz(most=True),
        "power_limit_mw": device.power_limit_mw(),
        "default_power_limit_mw": device.power_limit_mw(default=True),
        "link_generation": link[0] if link else None,
        "link_lanes": link[1] if link else None,
    }


def open_gpu(place: MonitoredCommand, load: Callable[[str], Any] = ctypes.CDLL) -> Reader:
    """Begin reading; raises Absent where there is no NVIDIA driver or device."""
    try:
        library = Nvml(load)
    except NvmlMissing as missing:
        raise Absent(str(missing), usual=True) from None
    devices = library.devices()
    if not devices:
        library.close()
        raise Absent("no NVIDIA device", usual=True)
    return GpuReader(library, devices, place.family)


MONITOR = Monitor(name="gpu", open=open_gpu)
