"""NVIDIA's management library, called without any package: what a device is, and how it fares.

Names, structures and numbers are those of NVIDIA's public header nvml.h. Calls that a driver or a device does not know answer None.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY: Final = "libnvidia-ml.so.1"
_SUCCESS: Final = 0
_INSUFFICIENT_SIZE: Final = 7
_TEMPERATURE_GPU: Final = 0
_CLOCK_SM: Final = 1
_CLOCK_MEMORY: Final = 2
_PCIE_SENT: Final = 0
_PCIE_RECEIVED: Final = 1
_STATE_UNKNOWN: Final = 32
_NAME_BYTES: Final = 96
_FIRST_ROOM: Final = 64
# "Not available" of an unsigned 64-bit field.
_NOT_AVAILABLE: Final = (1 << 64) - 1
_KB: Final = 1000


class NvmlMissing(Exception):
    """There is no such library, or it finds no driver."""


class Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sampling period."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class NvmlMemory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_v2_t, which is that of version 3 as well."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Nvml:
    """The library, initialised."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        """Raises NvmlMissing."""
        try:
            self._library = load(LIBRARY)
            code = int(self._library.nvmlInit_v2())
        except (OSError, AttributeError) as error:
            raise NvmlMissing(f"{LIBRARY}: {error}") from None
        if code != _SUCCESS:
            raise NvmlMissing(f"{LIBRARY} finds no driver (error {code})")

    def devices(self) -> list[Device]:
        """All devices of this machine, in the library's order (that of the PCI bus)."""
        count = ctypes.c_uint()
        if not self.call("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return []
        found = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle)):
                found.append(Device(self, index, handle))
        return found

    def code(self, name: str, *arguments: Any) -> int | None:
        """What a function of the library answers; None where this version has no such function."""
        function = getattr(self._library, name, None)
        return None if function is None else int(function(*arguments))

    def call(self, name: str, *arguments: Any) -> bool:
        """Whether a function of the library exists and succeeds."""
        return self.code(name, *arguments) == _SUCCESS

    def close(self) -> None:
        """Let go of the driver."""
        self.call("nvmlShutdown")


class Device:
    """One device. Whatever it does not know is None."""

    def __init__(self, library: Nvml, index: int, handle: ctypes.c_void_p) -> None:
        self._library, self.index, self._handle = library, index, handle

    def name(self) -> str | None:
        """What its maker calls it."""
        return self._text("nvmlDeviceGetName")

    def uuid(self) -> str | None:
        """What CUDA_VISIBLE_DEVICES may call it."""
        return self._text("nvmlDeviceGetUUID")

    def utilization(self) -> tuple[int, int] | None:
        """Percent of the last period in which a kernel ran, and in which memory was read or written."""
        value = Utilization()
        return (value.gpu, value.memory) if self._ask("nvmlDeviceGetUtilizationRates", ctypes.byref(value)) else None

    def memory_bytes(self) -> tuple[int, int] | None:
        """Memory in total and used."""
        value = NvmlMemory()
        return (value.total, value.used) if self._ask("nvmlDeviceGetMemoryInfo", ctypes.byref(value)) else None

    def state(self) -> int | None:
        """The performance state: 0 is the fastest, 15 the slowest."""
        value = self._number("nvmlDeviceGetPerformanceState")
        return None if value == _STATE_UNKNOWN else value

    def sm_mhz(self, *, most: bool = False) -> int | None:
        """The multiprocessors' clock now, or the most that it can be."""
        return self._number("nvmlDeviceGetMaxClockInfo" if most else "nvmlDeviceGetClockInfo", _CLOCK_SM)

    def memory_mhz(self, *, most: bool = False) -> int | None:
        """The memory's clock now, or the most that it can be."""
        return self._number("nvmlDeviceGetMaxClockInfo" if most else "nvmlDeviceGetClockInfo", _CLOCK_MEMORY)

    def lowered_by(self) -> int | None:
        """Why clocks are lower than they could be, as bits; newer drivers call the function by its second name."""
        value = ctypes.c_ulonglong()
        for name in ("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons"):
            if self._ask(name, ctypes.byref(value)):
                return value.value
        return None

    def power_mw(self) -> int | None:
        """Power drawn now."""
        return self._number("nvmlDeviceGetPowerUsage")

    def power_limit_mw(self, *, default: bool = False) -> int | None:
        """Power allowed, or that which the device is made for."""
        return self._number("nvmlDeviceGetPowerManagementDefaultLimit" if default else "nvmlDeviceGetEnforcedPowerLimit")

    def temperature_c(self) -> int | None:
        """Temperature now."""
        return self._number("nvmlDeviceGetTemperature", _TEMPERATURE_GPU)

    def link(self, *, most: bool = False) -> tuple[int, int] | None:
        """Generation and lanes of the PCIe link, now or at most. An idle device lowers the generation to save power."""
        which = "Max" if most else "Curr"
        generation = self._number(f"nvmlDeviceGet{which}PcieLinkGeneration")
        lanes = self._number(f"nvmlDeviceGet{which}PcieLinkWidth")
        return None if generation is None or lanes is None else (generation, lanes)

    def received_per_s(self) -> int | None:
        """Bytes per second received over PCIe. The library counts for 20 ms, and the call takes as long."""
        value = self._number("nvmlDeviceGetPcieThroughput", _PCIE_RECEIVED)
        return None if value is None else value * _KB

    def sent_per_s(self) -> int | None:
        """Bytes per second sent over PCIe; as above."""
        value = self._number("nvmlDeviceGetPcieThroughput", _PCIE_SENT)
        return None if value is None else value * _KB

    def processes(self) -> dict[int, int | None] | None:
        """Bytes that each process computing on it holds, by process id (None unknown)."""
        count, room = ctypes.c_uint(_FIRST_ROOM), _FIRST_ROOM
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            for _ in range(2):
                listed = (ProcessInfo * room)()
                count.value = room
                code = self._library.code(name, self._handle, ctypes.byref(count), listed)
                if code == _SUCCESS:
                    return {info.pid: None if info.used_bytes == _NOT_AVAILABLE else info.used_bytes for info in listed[: count.value]}
                if code != _INSUFFICIENT_SIZE:
                    break
                room = count.value + _FIRST_ROOM
        return None

    def _ask(self, name: str, *arguments: Any) -> bool:
        return self._library.call(name, self._handle, *arguments)

    def _number(self, name: str, *which: int) -> int | None:
        value = ctypes.c_uint()
        return value.value if self._ask(name, *map(ctypes.c_uint, which), ctypes.byref(value)) else None

    def _text(self, name: str) -> str | None:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        return text.value.decode(errors="replace") if self._ask(name, text, ctypes.c_uint(_NAME_BYTES)) else None
