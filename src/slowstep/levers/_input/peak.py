"""The most memory that steps take: of the accelerator where the training uses one, else of this process."""

from __future__ import annotations

from typing import Final

from slowstep.levers._input import room
from slowstep.record.framework import DeviceMemory

DEVICE: Final = "device"
PROCESS: Final = "process"


class Peak:
    """Peaks since the last `begin`. `of` says whose memory it is; bytes are None where the system does not say."""

    def __init__(self, device: DeviceMemory | None) -> None:
        self._device = device
        self.of = PROCESS if device is None else DEVICE
        self.base_bytes = self._now()

    def begin(self) -> None:
        """Forget the peak so far. Raises OSError where the system does not let us."""
        if self._device is None:
            room.forget_resident_peak()
        else:
            self._device.forget_peak()
        self.base_bytes = self._now()

    def read(self) -> int | None:
        """The peak."""
        return room.resident_peak_bytes() if self._device is None else self._device.peak_bytes()

    def free_bytes(self) -> int | None:
        """What there is beyond what is in use between two steps."""
        return room.memory_free_bytes() if self._device is None else self._device.free_bytes()

    def _now(self) -> int | None:
        return room.resident_bytes() if self._device is None else self._device.used_bytes()
