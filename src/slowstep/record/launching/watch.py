"""The thread beside the user's command that takes the monitors' readings.

It is the only one that wakes up ten times a second: waking costs as much as all readings together (docs/monitors.md has the numbers).
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from slowstep.health import HealthKind
from slowstep.record.monitors import Absent, Monitor, MonitoredCommand, Reader, Reading
from slowstep.registry import discover_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from slowstep.record.launching.journal import Journal

INTERVAL_S: Final = 0.1
# Waking and reading may cost at most a thousandth of a core: where a round costs more than 100 us, rounds become rarer. The cost is
# smoothed, so that one dear round (once a second everything is read) leaves no gap in the readings.
_PAUSE_PER_COST: Final = 1000
_SMOOTHING: Final = 0.1
# One monitor may cost at most a ten-thousandth of a core where it is not read in every round.
_PAUSE_PER_READING: Final = 10_000
# After an hour readings become rarer in proportion to the time: a week of them has 26 MB.
_RARER_AFTER_S: Final = 3600.0
_CLOCK_EVERY_S: Final = 60.0
MONITOR: Final = HealthKind("monitor", "notice", "Readings of the monitor {name} are missing ({what}): what they would show is not judged.")


class _Slot:
    """One opened monitor, and when it is to be read next."""

    __slots__ = ("due_s", "every_s", "name", "reader")

    def __init__(self, name: str, reader: Reader, every_s: float) -> None:
        self.name, self.reader, self.every_s = name, reader, every_s
        self.due_s = 0.0


class MonitorWatch:
    """Reads each monitor up to ten times a second until stopped; one that fails is left out, and a health note says so.

    `also` is called after every round, in the thread.
    """

    def __init__(self, journal: Journal, root: int, also: Callable[[], None] = lambda: None) -> None:
        self._journal = journal
        self._also = also
        self._began_s = time.monotonic()
        self._place = MonitoredCommand(root)
        self._slots = _open_all(journal, self._place)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slowstep-monitors", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which takes a last reading of everything; called by `also`, in the thread itself, without that reading."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        if self._thread is threading.current_thread():
            self._close()
        else:
            self._thread.join(timeout=2.0)

    def _close(self) -> None:
        for slot in self._slots:
            slot.reader.close()
        self._slots.clear()
        self._place.family.close()

    def _run(self) -> None:
        # A signal must interrupt the training's own waiting, where this thread runs beside one.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        clock_due = 0.0
        smoothed = pause = spent = 0.0
        while not self._stopped.wait(pause):
            if time.monotonic() >= clock_due:
                self._journal.clock()
                clock_due = time.monotonic() + _CLOCK_EVERY_S
            self._round()
            self._also()
            before, spent = spent, time.thread_time()
            smoothed += _SMOOTHING * (spent - before - smoothed)
            pause = max(INTERVAL_S, smoothed * _PAUSE_PER_COST)
        if self._slots:
            self._round(everything=True)
            self._close()

    def _round(self, *, everything: bool = False) -> None:
        now_ns = time.monotonic_ns()
        # What is due within half a round is read now: waiting for the next would be further off.
        soon_s = now_ns * 1e-9 + INTERVAL_S / 2
        taken: list[Reading] = []
        for slot in self._slots[:]:
            if everything or slot.due_s <= soon_s:
                taken += self._read(slot, now_ns)
        if taken:
            self._journal.readings(now_ns, taken)

    def _read(self, slot: _Slot, now_ns: int) -> list[Reading]:
        before_ns = time.thread_time_ns()
        try:
            readings = slot.reader.read(now_ns)
        except Exception as error:  # a monitor that fails is switched off and named; the others go on
            self._slots.remove(slot)
            slot.reader.close()
            _report(self._journal, slot.name, f"failed: {type(error).__name__}: {error}")
            return []
        now_s = now_ns * 1e-9
        every_s = slot.every_s * max((now_s - self._began_s) / _RARER_AFTER_S, 1.0)
        if slot.every_s > INTERVAL_S:
            every_s = max(every_s, (time.thread_time_ns() - before_ns) * 1e-9 * _PAUSE_PER_READING)
        slot.due_s = now_s + every_s
        return readings


def _open_all(journal: Journal, place: MonitoredCommand) -> list[_Slot]:
    slots: list[_Slot] = []
    found, broken = discover_whole("slowstep.record.monitors", "MONITOR", Monitor)
    for file, error in broken.items():
        _report(journal, file, str(error))
    for monitor in found.values():
        try:
            reader = monitor.open(place)
        except Absent as reason:
            _say_absent(journal, monitor.name, reason)
            continue
        except Exception as error:  # a monitor that fails is switched off and named; the others go on
            _report(journal, monitor.name, f"failed: {type(error).__name__}: {error}")
            continue
        for fact in reader.facts:
            journal.note(**fact)
        slots.append(_Slot(monitor.name, reader, monitor.every_s))
    return slots


def _say_absent(journal: Journal, name: str, reason: Absent) -> None:
    if reason.usual:
        journal.note("absent", monitor=name, reason=str(reason))
    else:
        _report(journal, name, f"not measured: {reason}")


def _report(journal: Journal, name: str, what: str) -> None:
    journal.health(MONITOR.of(name), name=repr(name), what=what)
