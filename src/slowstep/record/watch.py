"""The thread beside the user's command that takes the monitors' readings.

It is the only one that wakes up ten times a second: waking costs more than all readings together (measured: 90 us against 20).
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from slowstep.errors import SlowstepError
from slowstep.record.monitors import Absent, Monitor, Reader
from slowstep.registry import discover

if TYPE_CHECKING:
    from collections.abc import Callable

    from slowstep.record.journal import Journal

INTERVAL_S: Final = 0.2
# Waking and reading may cost at most a fifteen-hundredth of a core: where a round costs more than 130 us, rounds become rarer.
_PAUSE_PER_COST: Final = 1500
_CLOCK_EVERY_S: Final = 60.0


class Watch:
    """Reads all monitors up to five times a second until stopped; one that fails is left out, and a health note says so.

    `also` is called after every round, in the thread.
    """

    def __init__(self, journal: Journal, root: int, also: Callable[[], None] = lambda: None) -> None:
        self._journal = journal
        self._also = also
        self._readers = _open_all(journal, root)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slowstep-monitors", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take a last reading and end the thread; called by `also`, in the thread itself, the last reading was the one before."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        if self._thread is threading.current_thread():
            self._close()
        else:
            self._thread.join(timeout=2.0)

    def _close(self) -> None:
        for _, reader in self._readers:
            reader.close()
        self._readers.clear()

    def _run(self) -> None:
        # A signal must interrupt the training's own waiting, where this thread runs beside one.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        clock_due = 0.0
        pause = spent = 0.0
        while not self._stopped.wait(pause):
            if time.monotonic() >= clock_due:
                self._journal.clock()
                clock_due = time.monotonic() + _CLOCK_EVERY_S
            self._round()
            self._also()
            before, spent = spent, time.thread_time()
            pause = max(INTERVAL_S, (spent - before) * _PAUSE_PER_COST)
        if self._readers:
            self._round()
            self._close()

    def _round(self) -> None:
        taken: list[tuple[int, int, int, int, int]] = []
        for entry in list(self._readers):
            monitor, reader = entry
            now_ns = time.monotonic_ns()
            try:
                fields = reader.read(now_ns)
            except Exception as error:
                self._readers.remove(entry)
                reader.close()
                _report(self._journal, monitor.name, f"failed: {type(error).__name__}: {error}")
                continue
            taken.append((monitor.kind, now_ns, *fields))
        self._journal.readings(taken)


def _open_all(journal: Journal, root: int) -> list[tuple[Monitor, Reader]]:
    opened: list[tuple[Monitor, Reader]] = []
    try:
        found = discover("slowstep.record.monitors", "MONITOR")
    except SlowstepError as error:
        _report(journal, "all", str(error))
        return opened
    for monitor in found.values():
        assert isinstance(monitor, Monitor)
        try:
            opened.append((monitor, monitor.open(root)))
        except Absent as reason:
            _report(journal, monitor.name, f"not measured: {reason}")
    return opened


def _report(journal: Journal, name: str, what: str) -> None:
    journal.health(
        f"monitor-{name}", "notice", f"Readings of the monitor {name!r} are missing ({what}): what they would show is not judged."
    )
