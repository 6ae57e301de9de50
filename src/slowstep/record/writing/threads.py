"""What every thread of a recorded process keeps for itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from slowstep.record.writing.format import RECORD_BYTES

# A record in the order of format.RECORD: t0, t1, a, b, c, thread, flags, extra, kind.
Fields = tuple[int, int, int, int, int, int, int, int, int]
# What is held back of a step, to be written as one record: begin and end of its wait, the iterator, samples.
HeldStep = tuple[int, int, "Iterator", int]
# A step that is over and not written yet: what was held back of it, begin and end of its backward, then optimizer, begin and end of the
# update; three zeros where it had none.
EndedStep = tuple[HeldStep, tuple[int, int] | None, int, int, int]
assert RECORD_BYTES == 48


class Iterator:
    """What is known of a loader's iterator while its requests are recorded; kept on it, and can be neither copied nor pickled.

    `batches` were asked for so far; those that are held back (HeldStep) are counted when they are written. All of them hold `samples`
    samples, but for the one with the index `last`, which holds `left`; -1 where that is not known.
    """

    __slots__ = ("batches", "has_workers", "in_order", "last", "left", "number", "samples")

    def __init__(self, number: int, *, batches: int = 0, has_workers: bool = False, in_order: bool = True) -> None:
        self.number, self.batches = number, batches
        self.has_workers, self.in_order = has_workers, in_order
        self.samples = self.last = self.left = -1


class Schedstat:
    """A thread's CPU time and run-queue delay, read from a file that stays open for as long as the thread lives."""

    __slots__ = ("_handle",)

    def __init__(self, thread: int) -> None:
        self._handle = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def delay_ns(self) -> int:
        """Nanoseconds that the thread has waited for a core so far. Raises OSError, ValueError or IndexError without the kernel's help."""
        return int(os.pread(self._handle, 64, 0).split(None, 2)[1])

    def times_ns(self) -> tuple[int, int]:
        """Nanoseconds that the thread has computed, and waited for a core, so far. Raises as `delay_ns`."""
        computed, waited = os.pread(self._handle, 64, 0).split(None, 2)[:2]
        return int(computed), int(waited)

    def close(self) -> None:
        """Give the file back; it says nothing any more."""
        try:
            # First the number: another file may get it.
            handle, self._handle = self._handle, -1
            os.close(handle)
        except (OSError, AttributeError):
            pass

    __del__ = close


class ThreadState:
    """State of one thread, in one object: attributes of a threading.local are slow to reach."""

    __slots__ = (
        "__weakref__",
        "backward",
        "backwards",
        "backwards_ahead",
        "batch",
        "borrower",
        "collated",
        "cpu_share",
        "ended",
        "fetch_ns",
        "fetching",
        "forward",
        "held",
        "in_worker",
        "judging",
        "making",
        "mark_due_ns",
        "marked",
        "marking",
        "quick",
        "sample_ns",
        "samples",
        "saving",
        "schedstat",
        "sharing",
        "slow_samples",
        "sparse_since_ns",
        "step_ns",
        "thread",
        "unfed",
        "unmeasured_ns",
        "unspent_ns",
        "updates",
        "waits",
        "waits_ahead",
        "watched",
        "when_received",
        "write_ns",
    )

    def __init__(self) -> None:
        self.thread = threading.get_native_id()
        # None: not opened yet; False: the kernel does not say.
        self.schedstat: Schedstat | bool | None = None
        self.watched = False
        # Input: the iterator for which this thread is making a batch, how many batches it has asked for, and who records them instead.
        self.making: Any = None
        self.waits = 0
        self.borrower: Any = None
        # How many calls go on in which a framework judges the model or has it predict: their input is not the training's.
        self.judging = 0
        # The iterator whose batches take next to no time, while nothing of them is due but their waits.
        self.quick: Any = None
        # Of the step that goes on: its wait, and begin and end of its backward. Of those that have ended: when they are to be written.
        self.held: HeldStep | None = None
        self.backward: tuple[int, int] | None = None
        self.ended: list[EndedStep] = []
        self.write_ns = 0
        # In a worker: which batch is being made.
        self.in_worker = self.fetching = False
        self.batch = -1
        self.fetch_ns = self.unmeasured_ns = 0
        # What one sample usually takes, how many were timed, and how many of them were slow.
        self.sample_ns = self.samples = self.slow_samples = 0
        # What batches took to make, less what was set against the timing of samples.
        self.unspent_ns = 0
        self.cpu_share, self.collated = 1.0, -1
        # Updates: how often bookkeeping was done, how long a step is, and the state of cpu_marks.
        self.updates = self.step_ns = self.mark_due_ns = self.sparse_since_ns = 0
        self.marking = 1
        # Whether it asks for a batch less often than it updates, and makes something of each for every update; how many backward passes
        # there were; and how many more batches, and backward passes, than updates there had been at the first of these.
        self.unfed, self.waits_ahead = False, 0
        self.backwards = self.backwards_ahead = 0
        # In a loop that is not fed: in which update the first forward was marked.
        self.marked = -1
        # Called, once, when a batch has been received, in a loop that is not fed also when its model begins: a gap's or a body's calls are
        # timed.
        self.when_received: Callable[[ThreadState], None] | None = None
        self.forward = self.saving = self.sharing = False

    @property
    def fed(self) -> bool:
        """Whether a loader's batches are what it trains on."""
        return self.waits > 0 and not self.unfed

    def delay_ns(self) -> int | None:
        """Nanoseconds that this thread has waited for a core so far; None where the kernel does not say."""
        schedstat = self.schedstat
        if isinstance(schedstat, bool):
            return None
        try:
            if schedstat is None:
                schedstat = self.schedstat = Schedstat(self.thread)
            return schedstat.delay_ns()
        except (OSError, ValueError, IndexError):
            self.schedstat = False
            return None

    def close(self) -> None:
        """Give back the file that it keeps open: the recording has ended."""
        schedstat, self.schedstat = self.schedstat, False
        if isinstance(schedstat, Schedstat):
            schedstat.close()


class PerThread(threading.local):
    """The calling thread's state, as `me`; a thread that is seen for the first time gets a fresh one. `known` is to hold those of all."""

    def __init__(self, known: WeakSet[ThreadState]) -> None:
        # Called anew in every thread, with the same argument.
        self._known, self.me = known, ThreadState()
        known.add(self.me)

    def forget(self) -> None:
        """Start anew: a thread that survived a fork is another thread, in another process."""
        self._known.clear()
        self.me = ThreadState()
        self._known.add(self.me)

    def close(self) -> None:
        """Give back the files that the threads keep open."""
        for state in list(self._known):
            state.close()
