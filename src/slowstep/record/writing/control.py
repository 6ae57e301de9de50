"""The control page: how launcher and recorded processes agree on when the recording ends."""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING, Final

from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORD: Final = struct.Struct("<Q")


class ControlPage:
    """The launcher's side of the page `control` of a recording. Reads and writes single bytes and aligned words: no lock is needed."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, contract.CONTROL_FILE)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Written, not truncated to size: a page of a full disk would kill whoever touches it.
            os.write(handle, bytes(contract.CONTROL_BYTES))
            self._page = mmap.mmap(handle, contract.CONTROL_BYTES)
        finally:
            os.close(handle)
        self._page[contract.CONTROL_RECORDING] = 1

    @property
    def recording(self) -> bool:
        """Whether the recording goes on."""
        return self._page[contract.CONTROL_RECORDING] != 0

    @property
    def reason(self) -> int:
        """Why it stopped: one of format.STOPPED_BY_..., 0 while it goes on."""
        return self._page[contract.CONTROL_REASON]

    @property
    def updates(self) -> int:
        """Updates of the busiest optimizer so far."""
        return self._word(contract.CONTROL_UPDATES)

    @property
    def first_update_ns(self) -> int | None:
        """When the first update ended (CLOCK_MONOTONIC, ns); None before it."""
        return self._word(contract.CONTROL_FIRST_UPDATE) or None

    @property
    def first_backward_ns(self) -> int | None:
        """When the first backward pass was over (CLOCK_MONOTONIC, ns); None before the second one begins."""
        return self._word(contract.CONTROL_FIRST_BACKWARD) or None

    @property
    def pid(self) -> int | None:
        """The process that updates; None before the first update."""
        return self._word(contract.CONTROL_PID) or None

    def told(self, flags: Mapping[str, int]) -> tuple[str, ...]:
        """What processes of the command have said of themselves so far, of the flags at these places (page.set_flag)."""
        return tuple(name for name, at in flags.items() if self._page[at])

    @property
    def plan(self) -> int:
        """How far the experiment is: one of format.PLAN_..."""
        return self._page[contract.CONTROL_PLAN]

    def post_plan(self) -> None:
        """Tell the processes that update that the file of the plan is complete."""
        number = self._word(contract.CONTROL_PLAN_NUMBER) + 1
        _WORD.pack_into(self._page, contract.CONTROL_PLAN_NUMBER, number)
        self._page[contract.CONTROL_PLAN] = contract.PLAN_POSTED

    def stop(self, reason: int) -> None:
        """Tell every recorded process to stop recording. Whoever stopped it first has given the reason."""
        if self.recording:
            self._page[contract.CONTROL_REASON] = reason
            self._page[contract.CONTROL_RECORDING] = 0

    def close(self) -> None:
        """Unmap the page; the file stays."""
        self._page.close()

    def _word(self, offset: int) -> int:
        return int(_WORD.unpack_from(self._page, offset)[0])
