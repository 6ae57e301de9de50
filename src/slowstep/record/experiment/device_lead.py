"""Where calls return before their work is done: how long blocks of steps took the device, which the host may be far ahead of.

The host's clock alone says how fast calls are handed over. So a block ends when the device has made its last update: the host waits for it,
and what one arm has handed over is never done in the next one's time. Where a block begins nobody may wait: the host would lose its lead,
and what it does under the busy device would seem to cost time. A thread waits there instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from slowstep.record.recorder import now

# Waits until the device has made an update. False where it cannot be asked: what the update gave is gone, or was given away.
Wait = Callable[[], bool]

# What a thread needs at most to say that an update was made which the host has seen to be: it waits for the interpreter's lock.
_SAYING_S: Final = 5.0


class DeviceLead:
    """The last update that was handed over, if the framework tells how to wait for it."""

    def __init__(self) -> None:
        self._wait: Wait | None = None
        self._watched: _Completion | None = None
        self._is_given_away = False

    def updated(self, wait: Wait | None) -> None:
        """An update was handed over."""
        self._wait = wait

    def drain(self) -> bool:
        """Wait until it is made. Returns whether that is known."""
        return self._wait is not None and _is_made(self._wait)

    def watch(self) -> None:
        """Note when it is made, and go on meanwhile; but wait where the script was found to give away what could be asked."""
        if self._is_given_away:
            self.drain()
        self._watched = None if self._wait is None else _Completion(self._wait)

    def watched_ns(self) -> int | None:
        """When that update was made (ns), once a later one is; None where it is not known."""
        found = None if self._watched is None else self._watched.at_ns()
        self._is_given_away |= found is None
        return found


class _Completion:
    """The instant at which an update was made, or was handed over where it was made already."""

    def __init__(self, wait: Wait) -> None:
        self._wait, self._at_ns = wait, 0
        self._begins = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="slowstep-completion", daemon=True)
        self._thread.start()
        # Once it waits, what it waits for may be given away.
        self._begins.wait(_SAYING_S)

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
