"""Where calls return before their work is done: how long blocks of steps took the device, which the host may be far ahead of.

The host's clock alone says how fast calls are handed over. So a block begins and ends when the device has made an update. Nobody waits for
it on the training thread, which would lose its lead, and what it does under the busy device would seem to cost time: a thread does.
Between blocks the device is waited for, so that what one arm has handed over is never done in the next one's time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from slowstep.record.recorder import now

# Waits until the device has made an update. False where it cannot be asked: what the update gave is gone, or was given away.
Wait = Callable[[], bool]

# What a thread needs at most to say that an update was made which the host has seen to be: it waits for the GIL.
_SAYING_S: Final = 5.0


class DeviceLead:
    """The last update that was handed over, if the framework tells how to wait for it."""

    def __init__(self) -> None:
        self._wait: Wait | None = None
        self._begin: _Completion | None = None
        self._end: _Completion | None = None
        self._is_given_away = False

    def updated(self, wait: Wait | None) -> None:
        """An update was handed over."""
        self._wait = wait

    def drain(self) -> bool:
        """Wait until it is made. Returns whether that is known."""
        return self._wait is not None and _is_made(self._wait)

    def watch_begin(self) -> None:
        """A block begins when the last update is made."""
        self._begin, self._end = self._watched(), None

    def watch_end(self) -> None:
        """The block ends when the last update is made."""
        self._end = self._watched()

    def has_ended(self) -> bool:
        """Whether the device has made the block's last update, or nobody can tell."""
        return self._end is None or self._end.has_ended

    def edges_ns(self) -> tuple[int, int] | None:
        """When the block began and ended, waited for; None where it is not known."""
        self.drain()
        begin, end = (None if edge is None else edge.at_ns() for edge in (self._begin, self._end))
        self._is_given_away |= begin is None or end is None
        return None if begin is None or end is None else (begin, end)

    def _watched(self) -> _Completion | None:
        # Where the script was found to give away what could be asked, it is asked at once.
        if self._is_given_away:
            self.drain()
        return None if self._wait is None else _Completion(self._wait)


class _Completion:
    """The instant at which an update was made, or was handed over where it was made already."""

    def __init__(self, wait: Wait) -> None:
        self._wait, self._at_ns = wait, 0
        self._begins = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="slowstep-completion", daemon=True)
        self._thread.start()
        # Once it waits, what it waits for may be given away.
        self._begins.wait(_SAYING_S)

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def at_ns(self) -> int | None:
        """Asked after a later update was made; None where it is not known."""
        self._thread.join(_SAYING_S)
        return self._at_ns or None

    def _watch(self) -> None:
        self._begins.set()
        if _is_made(self._wait):
            self._at_ns = now()


def _is_made(wait: Wait) -> bool:
    try:
        return wait()
    except Exception:  # what the device has failed at, the script meets itself
        return False
