"""The memory of the accelerator that torch uses."""

from __future__ import annotations

import sys
from typing import Any

from slowstep.record.framework import DeviceMemory


class CudaMemory:
    """What torch's allocator says of the current device."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def used_bytes(self) -> int | None:
        """What tensors take."""
        return int(self._cuda.memory_allocated())

    def forget_peak(self) -> None:
        """Begin a peak anew."""
        self._cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int | None:
        """The most that tensors took since."""
        return int(self._cuda.max_memory_allocated())

    def free_bytes(self) -> int | None:
        """What the device has free, and what the allocator holds unused."""
        return int(self._cuda.mem_get_info()[0]) + int(self._cuda.memory_reserved()) - int(self._cuda.memory_allocated())


def device_memory() -> DeviceMemory | None:
    """None where it uses none, or has not begun to."""
    cuda: Any = sys.modules["torch"].cuda
    return CudaMemory(cuda) if cuda.is_available() and cuda.is_initialized() else None
