"""An iterator of torch's DataLoader, read below the hooks: what lies ready in it, what it still has to give, what is thrown away of it."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from slowstep.levers._epochs import has_indices
from slowstep.record.format import READY_UNKNOWN
from slowstep.record.recorder import now
from slowstep.record.waits import ready_batches

Receive = Callable[[Any], Any]
SINGLE: Final = "_SingleProcessDataLoaderIter"
MULTI: Final = "_MultiProcessingDataLoaderIter"
# Readings of how many batches lie ready.
READINGS: Final = 64
# No longer than this are batches received only to be thrown away.
THROW_AWAY_NS: Final = 2_000_000_000
# Workers of a stream from which nothing came for so long have nothing to do, if nobody asks.
QUIET_NS: Final = 100_000_000

# Of iterators over streams: how many batches lay ready, and since when it is so many.
_quiet: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


class Supply:
    """The indices for an iterator, as many as are wanted: its sampler is begun anew when it has no more. `left` None: without end."""

    def __init__(self, indices: Iterator[Any], sampler: Any) -> None:
        self._indices, self._sampler = indices, sampler
        self.left: int | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.left is not None:
            if self.left <= 0:
                raise StopIteration
            self.left -= 1
        try:
            return next(self._indices)
        except StopIteration:
            self._indices = iter(self._sampler)
            return next(self._indices)

    def remaining(self) -> Iterator[Any]:
        """What is left, without this object."""
        return self._indices if self.left is None else itertools.islice(self._indices, max(self.left, 0))


class Usual:
    """How many batches usually lie ready where one is asked for, and how far apart (ns) requests are."""

    def __init__(self) -> None:
        self._readings: deque[int] = deque(maxlen=READINGS)
        self._apart_ns: deque[int] = deque(maxlen=READINGS)
        self._last_ns: int | None = None

    def add(self, ready: int | None, at_ns: int) -> None:
        """Take a reading; None where there are no workers."""
        if ready is not None:
            self._readings.append(ready)
        if self._last_ns is not None:
            self._apart_ns.append(at_ns - self._last_ns)
        self._last_ns = at_ns

    def interrupt(self) -> None:
        """The next request does not follow the last one."""
        self._last_ns = None

    @property
    def level(self) -> int | None:
        """The median of the last readings; None without any."""
        return int(statistics.median_low(self._readings)) if self._readings else None

    def start(self, workers: int) -> tuple[int, int]:
        """How many batches are to lie ready where requests begin, and how far apart (ns) workers are then to be given work.

        Workers that the training waits for deliver in bunches of up to all of them: once a bunch nothing is ready. One batch is left for
        the first step, which is not counted: it begins when the workers do, as each step does later.
        """
        zeros = sum(ready == 0 for ready in self._readings)
        if not self._readings or zeros * workers * 2 >= len(self._readings):
            return 1, int(statistics.mean(self._apart_ns)) if self._apart_ns else 0
        return max(self.level or 0, 1), 0


class Stream:
    """One iterator. `receive` is torch's own `_next_data` of its class."""

    def __init__(self, iterator: Any, receive: Receive) -> None:
        self.iterator, self._receive = iterator, receive
        self.has_workers = "_worker_result_queue" in iterator.__dict__

    @property
    def workers(self) -> int:
        """Its worker processes."""
        return int(self.iterator.__dict__.get("_num_workers") or 0)

    @property
    def ready(self) -> int | None:
        """Batches that were made and not received; None without workers."""
        return ready_in(self.iterator)

    @property
    def outstanding(self) -> int:
        """Batches that its workers were told to make and that were not given out yet."""
        return len(self.iterator.__dict__.get("_task_info", ()))

    @property
    def is_over(self) -> bool:
        """Whether its workers were ended."""
        return bool(self.iterator.__dict__.get("_shutdown", False))

    def is_idle(self) -> bool:
        """Whether its workers have made all that they were told to make, and wait."""
        ready = None if self.is_over else self.ready
        if ready is None or ready >= self.outstanding:
            return True
        # A worker whose part of a stream has ended passes over what it was told.
        return not has_indices(self.iterator) and self._is_quiet(ready)

    def _is_quiet(self, ready: int) -> bool:
        before, since_ns = _quiet.get(self.iterator, (-1, 0))
        at_ns = now()
        if before != ready:
            _quiet[self.iterator] = ready, at_ns
        return before == ready and at_ns - since_ns > QUIET_NS

    def take(self) -> Any:
        """Its next batch. Raises StopIteration at its end, and whatever the data set raises."""
        return self._receive(self.iterator)

    def throw_away(self, level: int, apart_ns: int, *, most: int | None = None) -> int:
        """Receive what has gathered until no more than `level` lie ready, for 2 s and `most` at most; returns how many were received.

        Each receipt gives a resting worker new work. The workers get theirs `apart_ns` after one another: begun together they would deliver
        together, and a block of few steps hold one such bunch more or less. At its end the iterator raises StopIteration again when it
        is asked again: nothing is lost by stopping here.
        """
        thrown = 0
        until_ns = now() + THROW_AWAY_NS
        # Not those that are made meanwhile: fast workers would never let it end.
        gathered = self.outstanding if most is None else min(most, self.outstanding)
        while thrown < gathered and (self.ready or 0) > level and now() < until_ns:
            try:
                self.take()
            except StopIteration:
                break
            thrown += 1
            if apart_ns and thrown < self.workers:
                time.sleep(min(apart_ns, max(until_ns - now(), 0)) / 1e9)
        return thrown

    def allow(self, left: int | None) -> None:
        """Have it give so many more batches, those included that are being made, or any number (None); its workers get work again.

        Nothing happens where it is a stream, whose end nobody can move.
        """
        state = self.iterator.__dict__
        if not has_indices(self.iterator):
            return
        supply = state["_sampler_iter"]
        if not isinstance(supply, Supply):
            supply = Supply(supply, state["_index_sampler"])
            self.iterator._sampler_iter = supply
        supply.left = None if left is None else max(left - self.outstanding, 0)
        self._top_up()

    def _top_up(self) -> None:
        """Near the end of its indices an iterator asks for fewer batches at a time, and would go on so."""
        if not self.has_workers or self.is_over:
            return
        most = int(self.iterator._prefetch_factor) * self.workers
        while self.outstanding < most and self.iterator._tasks_outstanding < most:
            before = self.outstanding
            self.iterator._try_put_index()
            if self.outstanding == before:
                return

    def release(self) -> None:
        """Give it back its own sampler."""
        supply = self.iterator.__dict__.get("_sampler_iter")
        if isinstance(supply, Supply):
            self.iterator._sampler_iter = supply.remaining()

    def end(self) -> None:
        """End it as torch does when it has no more to give: persistent workers stay."""
        if self.has_workers and not self.iterator._persistent_workers:
            self.iterator._shutdown_workers()

    def close(self) -> None:
        """End its workers for good."""
        if self.has_workers:
            self.iterator._shutdown_workers()
            # Where torch keeps persistent iterators that pin memory, to end them at exit.
            getattr(sys.modules["torch.utils.data.dataloader"], "_persistent_workers_atexit", set()).discard(self.iterator)


def ready_in(iterator: Any) -> int | None:
    """Batches that lie ready in an iterator with workers; None without workers, and where the system does not say."""
    state = iterator.__dict__
    if state.get("_worker_result_queue") is None:
        return None
    ready = ready_batches(state)
    return None if ready == READY_UNKNOWN else ready


def torch_class(name: str) -> Any:
    """A class of torch's module of loaders. Raises KeyError or AttributeError where torch has none."""
    return getattr(sys.modules["torch.utils.data.dataloader"], name)
