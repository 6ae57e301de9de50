"""Signals while the user's command runs: none is acted on by slowstep, each is received in order and passed on where it must be."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

# What somebody may send to slowstep and mean for the training.
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# Signals that Python itself ignores from its start on; a command expects their default.
IGNORED_BY_PYTHON: Final = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))
_FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A signal; `by_kernel` when a terminal sent it to the whole group, so that the command has it already."""

    number: int
    by_kernel: bool


class Inbox:
    """Holds back the signals of this process (all threads) while in use, and hands them out one by one.

    Blocked, not handled: so the command inherits exactly what slowstep was started with, and who sent a signal is known.
    Limit: one sent by somebody to the whole process group is passed on too, so the command sees it twice.
    """

    def __enter__(self) -> Self:
        self._waited = {signal.SIGCHLD, *FORWARDED}
        self.mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        # Under a parent that ignores SIGCHLD no exit code could ever be read.
        self._child_before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self.receive(0.0):
            pass
        if self._child_before is not None:
            signal.signal(signal.SIGCHLD, self._child_before)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask_before)

    def receive(self, timeout_s: float) -> Received | None:
        """The next signal, waiting at most that long."""
        if hasattr(signal, "sigtimedwait"):
            info = signal.sigtimedwait(self._waited, timeout_s)
            return None if info is None else Received(number=info.si_signo, by_kernel=info.si_code > 0)
        return self._poll(timeout_s)

    def _poll(self, timeout_s: float) -> Received | None:
        # macOS tells neither time nor sender: a signal that keys can send is taken for the terminal's when there is one.
        deadline = time.monotonic() + timeout_s
        while not (pending := signal.sigpending() & self._waited):
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)
        number = signal.sigwait(pending)
        return Received(number=number, by_kernel=number == signal.SIGCHLD or (number in _FROM_TERMINAL and os.isatty(0)))
