"""Signals while the user's command runs: none is acted on by slowstep, each is received in order and passed on where it must be."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from slowstep.record.launching.probe import GroupProbe

if TYPE_CHECKING:
    from types import TracebackType

# What somebody may send to slowstep and mean for the training.
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# Those that ask it to end.
ASK_TO_END: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Signals that Python itself ignores from its start on; a command expects their default.
IGNORED_BY_PYTHON: Final = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))
_FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSignal:
    """A signal; `for_all` when it was sent to the whole group, so that the command has it already."""

    number: int
    for_all: bool


class Inbox:
    """Holds back the signals of this process (all threads) while in use, and hands them out one by one.

    Blocked, not handled: so the command inherits exactly what slowstep was started with, and whom a signal was meant for can be told.
    """

    def __enter__(self) -> Self:
        self._waited = {signal.SIGCHLD, *FORWARDED}
        self.mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        # Under a parent that ignores SIGCHLD no exit code could ever be read.
        self._child_before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._probe = GroupProbe(self._waited)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._probe.close()
        while self._take(0.0):
            pass
        if self._child_before is not None:
            signal.signal(signal.SIGCHLD, self._child_before)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask_before)

    def receive(self, timeout_s: float) -> ReceivedSignal | None:
        """The next signal, waiting at most that long."""
        taken = self._take(timeout_s)
        if taken is None or taken.for_all or taken.number not in FORWARDED:
            return taken
        return ReceivedSignal(number=taken.number, for_all=self._probe.has_also(taken.number))

    def _take(self, timeout_s: float) -> ReceivedSignal | None:
        if hasattr(signal, "sigtimedwait"):
            info = signal.sigtimedwait(self._waited, timeout_s)
            # A terminal's signal comes from the kernel, and goes to the whole group.
            return None if info is None else ReceivedSignal(number=info.si_signo, for_all=info.si_code > 0)
        return self._poll(timeout_s)

    def _poll(self, timeout_s: float) -> ReceivedSignal | None:
        # macOS tells neither time nor sender: a signal that keys can send is taken for the terminal's when there is one.
        deadline = time.monotonic() + timeout_s
        while not (pending := signal.sigpending() & self._waited):
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)
        number = signal.sigwait(pending)
        return ReceivedSignal(number=number, for_all=number == signal.SIGCHLD or (number in _FROM_TERMINAL and os.isatty(0)))
