"""What every thread of a recorded process keeps for itself."""

from __future__ import annotations

import os
import threading
from typing import Any


class Schedstat:
    """This thread's run-queue delay, read from a file that stays open for as long as the thread lives."""

    __slots__ = ("_handle",)

    def __init__(self, thread: int) -> None:
        self._handle = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def delay_ns(self) -> int:
        """Nanoseconds that the thread has waited for a core so far. Raises OSError or ValueError where the kernel does not say."""
        return int(os.pread(self._handle, 64, 0).split(None, 2)[1])

    def __del__(self) -> None:
        try:
            os.close(self._handle)
        except (OSError, AttributeError):
            pass


class PerThread(threading.local):
    """State of one thread; a thread that is seen for the first time gets a fresh one."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: a thread that survived a fork is another thread, in another process."""
        self.thread: int = threading.get_native_id()
        self.schedstat: Schedstat | None = None
        self.schedstat_missing: bool = False
        # Input: how deep in nested requests, and whose batch is being made.
        self.wait_depth: int = 0
        self.borrower: Any = None
        self.iterator: int = -1
        self.batch: int = -1
        self.waits: int = 0
        # Updates: begin of each optimizer's call that is running, by the optimizer's id().
        self.begun: dict[int, int] = {}
        self.updates: int = 0
        self.forward_depth: int = 0
        # Marks of CPU time: one step in `mark_every` is marked; `marking` is a state of cpu_marks.
        self.mark_every: int = 1
        self.marking: int = 1
        self.unmarked: int = 0
        self.last_update_ns: int = 0
        self.step_ns: int = 0
        # The same for fetches.
        self.fetch_ns: int = 0
        self.unmeasured: int = 0
        self.cpu_share: float = 1.0
        self.collated: int = -1
        self.in_worker: bool = False
        self.saving: bool = False

    def delay_ns(self) -> int | None:
        """Nanoseconds that this thread has waited for a core so far; None where the kernel does not say."""
        schedstat = self.schedstat
        if schedstat is None:
            if self.schedstat_missing:
                return None
            try:
                schedstat = self.schedstat = Schedstat(self.thread)
            except OSError:
                self.schedstat_missing = True
                return None
        try:
            return schedstat.delay_ns()
        except (OSError, ValueError, IndexError):
            self.schedstat, self.schedstat_missing = None, True
            return None
