"""The most memory that steps take: of the accelerator where the training uses one, else of this process."""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.levers._input import room

DEVICE: Final = "device"
PROCESS: Final = "process"


class Peak:
    """Peaks since the last `begin`. `of` says whose memory it is; bytes are None where the system does not say."""

    def __init__(self) -> None:
        cuda = _cuda()
        self.of = PROCESS if cuda is None else DEVICE
        self.base_bytes = self._now()

    def begin(self) -> None:
        """Forget the peak so far. Raises OSError where the system does not let us."""
        cuda = _cuda()
        if cuda is None:
            room.forget_resident_peak()
        else:
            cuda.reset_peak_memory_stats()
        self.base_bytes = self._now()

    def read(self) -> int | None:
        """The peak."""
        cuda = _cuda()
        return room.resident_peak_bytes() if cuda is None else int(cuda.max_memory_allocated())

    def free_bytes(self) -> int | None:
        """What there is beyond what is in use between two steps."""
        cuda = _cuda()
        if cuda is None:
            return room.memory_free_bytes()
        return int(cuda.mem_get_info()[0]) + int(cuda.memory_reserved()) - int(cuda.memory_allocated())

    def _now(self) -> int | None:
        cuda = _cuda()
        return room.resident_bytes() if cuda is None else int(cuda.memory_allocated())


def _cuda() -> Any:
    torch: Any = sys.modules["torch"]
    return torch.cuda if torch.cuda.is_available() and torch.cuda.is_initialized() else None
