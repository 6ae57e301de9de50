"""The recorded process's side of the control page: is recording on, and when does it end."""

from __future__ import annotations

import os

from slowstep.record.writing import format as contract
from slowstep.record.writing.storage import map_shared

_UPDATES = contract.CONTROL_UPDATES // 8
_FIRST_UPDATE = contract.CONTROL_FIRST_UPDATE // 8
_PID = contract.CONTROL_PID // 8
_FIRST_BACKWARD = contract.CONTROL_FIRST_BACKWARD // 8
_PLAN_NUMBER = contract.CONTROL_PLAN_NUMBER // 8


class Page:
    """The shared page, mapped until the recording of this process ends; a forked child goes on using it.

    Raises OSError or ValueError where the folder has no such page.
    """

    def __init__(self, folder: str) -> None:
        handle = os.open(os.path.join(folder, contract.CONTROL_FILE), os.O_RDWR | os.O_CLOEXEC)
        try:
            page = map_shared(handle, contract.CONTROL_BYTES)
        finally:
            os.close(handle)
        # Views for speed: one index operation a look.
        self.bytes = memoryview(page)
        self._words = self.bytes.cast("Q")

    @property
    def recording(self) -> bool:
        """Whether the recording goes on."""
        return self.bytes[contract.CONTROL_RECORDING] != 0

    def publish(self, updates: int, ended_ns: int) -> None:
        """Tell the launcher how far the busiest optimizer is."""
        words = self._words
        if updates > words[_UPDATES]:
            if not words[_FIRST_UPDATE]:
                words[_FIRST_UPDATE] = ended_ns
                words[_PID] = os.getpid()
            words[_UPDATES] = updates

    def publish_backward(self, ended_ns: int) -> None:
        """Tell the launcher that a backward pass is over: something trains, though no update may ever be seen."""
        words = self._words
        if not words[_FIRST_BACKWARD]:
            words[_FIRST_BACKWARD] = ended_ns

    def say_begun(self) -> None:
        """Tell the launcher that a call which trains has begun: should it never end, nothing else does."""
        self.bytes[contract.CONTROL_BEGUN] = 1

    @property
    def first_update_ns(self) -> int:
        """When the first update of the run ended (ns); 0 before it."""
        return self._words[_FIRST_UPDATE]

    @property
    def plan_number(self) -> int:
        """How many plans were posted so far."""
        return self._words[_PLAN_NUMBER]

    def stop(self, reason: int) -> None:
        """End the recording in every process. Whoever stopped it first has given the reason."""
        if self.recording:
            self.bytes[contract.CONTROL_REASON] = reason
            self.bytes[contract.CONTROL_RECORDING] = 0

    def close(self) -> None:
        """Unmap it, for a page keeps a file open. What it said last can still be read, by a hook that is in the middle of its work, too."""
        last = bytearray(self.bytes)
        last[contract.CONTROL_RECORDING] = 0
        # Whoever looks just now holds the mapping a moment longer.
        self.bytes = memoryview(last)
        self._words = self.bytes.cast("Q")


def set_flag(at: int) -> None:
    """Set the flag at a place for the launcher of this process's recording, before any recorder has opened it. Raises nothing."""
    try:
        page = os.open(os.path.join(os.environ[contract.ENV_RECORDING], contract.CONTROL_FILE), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(page, b"\1", at)
        finally:
            os.close(page)
    except (OSError, KeyError):
        pass  # no recording is under way here, and nobody asks
