"""The peak of memory of steps of two batch sizes: the training's own, and another that is tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slowstep.levers._input import room
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.framework import DeviceMemory

# Of the memory that is free, so much is used at most: estimates are no measurements.
MOST_MEMORY: Final = 0.9
# Steps of the training as it is over which its peak of memory is taken.
PEAK_STEPS: Final = 8
DEVICE: Final = "device"
PROCESS: Final = "process"


class Peak:
    """The most memory that steps take since the last `begin`.

    Of the accelerator where the training uses one, else of this process: `of` says whose it is. Bytes are None where the system does not
    say.
    """

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


class SizePeaks:
    """First that of the own size, of a few steps as they are; then, between `begin` and `end`, that of the other one."""

    def __init__(self, device: DeviceMemory | None) -> None:
        self._peak, self._looks = Peak(device), 0
        self._own_bytes: int | None = None
        self._other_bytes: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether that of the own size is."""
        return self._own_bytes is not None

    def look(self) -> bool:
        """One more step as it is has ended: whether these were enough. Raises OSError as `Peak.begin`."""
        if self._looks == 0:
            self._peak.begin()
        self._looks += 1
        if self._looks > PEAK_STEPS:
            self._own_bytes = self._peak.read() or 0
        return self.is_known

    def check(self, size: int, growth: float) -> None:
        """Raises NotApplicable where steps of so many samples, `growth` times the own size, would need too much memory."""
        free, base = self._peak.free_bytes(), self._peak.base_bytes
        if free is None or base is None:
            return
        wanted = ((self._own_bytes or 0) - base) * (growth if self._peak.of == DEVICE else growth - 1)
        if wanted > MOST_MEMORY * free:
            raise NotApplicable(
                f"steps of {size} samples would need about {wanted / room.MIB:.0f} MiB more than lies between two steps,"
                f" and {free / room.MIB:.0f} MiB are free: out of memory is to be expected"
            )

    def begin(self) -> None:
        """Steps of the other size begin. Raises OSError as `Peak.begin`."""
        self._peak.begin()

    def end(self) -> None:
        """They have ended."""
        self._other_bytes = max(self._other_bytes or 0, self._peak.read() or 0)

    def facts(self) -> Mapping[str, Any]:
        """The peaks (bytes), and whose memory it is: of the device, or of this process without its workers."""
        return {"peak_bytes": self._other_bytes, "own_peak_bytes": self._own_bytes, "peak_of": self._peak.of}
