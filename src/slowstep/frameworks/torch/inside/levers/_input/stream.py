"""An iterator of torch's DataLoader, read below the hooks: what lies ready in it, what it still has to give, what is discarded of it."""

from __future__ import annotations

import statistics
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from slowstep.frameworks.torch.inside._loader.described import ready_batches
from slowstep.frameworks.torch.inside.levers._input.epochs import has_indices
from slowstep.frameworks.torch.inside.levers._input.indices import Supply
from slowstep.record.recorder import now
from slowstep.record.writing.format import READY_UNKNOWN

Receive = Callable[[Any], Any]
SINGLE: Final = "_SingleProcessDataLoaderIter"
MULTI: Final = "_MultiProcessingDataLoaderIter"
# Readings of how many batches lie ready.
READINGS: Final = 64
# No longer than this are batches received only to be discarded, or waited for only to lie ready.
THROW_AWAY_NS: Final = 2_000_000_000
# How often it is looked whether they lie ready.
LOOK_S: Final = 0.001
# Workers of a stream from which nothing came for so long have nothing to do, if nobody asks.
QUIET_NS: Final = 100_000_000

# Of iterators over streams: how many batches lay ready, and since when it is so many.
_quiet: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


class Usual:
    """How many batches usually lie ready where one is asked for, how far apart (ns) requests are, and how much of that is waiting."""

    def __init__(self) -> None:
        self._readings: deque[int] = deque(maxlen=READINGS)
        self._apart_ns: deque[int] = deque(maxlen=READINGS)
        self._waits_ns: deque[int] = deque(maxlen=READINGS)
        self._last_ns: int | None = None
        self._carried = 0.0

    def add(self, ready: int | None, at_ns: int, spent_ns: int = 0) -> None:
        """Take a reading of a request at that time, which took so long; None where there are no workers."""
        if ready is not None:
            self._readings.append(ready)
            # A batch that lay ready was not waited for: what its receipt takes goes on beside the workers.
            self._waits_ns.append(0 if ready else spent_ns)
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

    def _waiting(self) -> float:
        """The share of the time between requests in which they are waited for; all of it before anything is known."""
        apart_ns = statistics.mean(self._apart_ns) if self._apart_ns else 0
        return min(statistics.mean(self._waits_ns) / apart_ns, 1.0) if self._waits_ns and apart_ns else 1.0

    def start(self) -> tuple[int, int]:
        """How many batches are to lie ready where requests begin, and how far apart (ns) workers are then to be given work.

        What counts is all the work that is done when the first counted step asks: batches that lie ready, and what the workers have done
        of others. Given work one after the other, k workers have done (k - 1) / 2 batches. A training that only waits finds the same done
        at each of its requests, whether batches come singly or in bunches: one is left for the step that is not counted, and no more.
        One that does not wait finds its usual number, and half a batch more done, since its workers went on while it computed.
        What lies between is taken to lie between. Half a batch is one batch every second time.
        """
        ready = statistics.mean(self._readings) if self._readings else 0.0
        waiting = self._waiting()
        self._carried += waiting + (1 - waiting) * (ready + 0.5)
        level = int(self._carried)
        self._carried -= level
        return level, int(statistics.mean(self._apart_ns)) if self._apart_ns else 0


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
    def made(self) -> int | None:
        """Batches that its workers have made in this epoch, received or lying ready; None without workers."""
        ready, received = self.ready, self.iterator.__dict__.get("_rcvd_idx")
        return None if ready is None or received is None else int(received) + ready

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

    def bring_to(self, level: int, apart_ns: int, *, left: int | None, most: int | None = None) -> int:
        """Have so many batches lie ready: discard as `discard`, or wait for more while any are being made, for 2 s. It gives `left`
        more then, as after `allow`. Returns how many were discarded.
        """
        if left is not None:
            level = min(level, left)
            # Workers get as much new work as is left: near the end of an epoch that is less than what is discarded.
            self._supply(left - min(level, self.ready or 0) - self._being_made)
        thrown = self.discard(level, apart_ns, most=most)
        if left is not None:
            self.allow(left)
        until_ns = now() + THROW_AWAY_NS
        while (self.ready or 0) < level and not self.is_idle() and now() < until_ns:
            time.sleep(LOOK_S)
        return thrown

    def discard(self, level: int, apart_ns: int, *, most: int | None = None) -> int:
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

        What is being made beyond them is received and discarded, for 2 s: an epoch that ends as ever leaves nothing to be made, and the
        next one begins at once. So is, however long it takes, a short batch elsewhere than at the epoch's end, and a full one there: a
        script that reads another loader beside it could not train on them. Nothing happens where it is a stream, whose end nobody can move.
        """
        misplaced = 0 if left is None else self._misplaced(left)
        self._supply(None if left is None else left - self.outstanding + misplaced)
        for _ in range(misplaced):
            self.take()
        if left is not None and has_indices(self.iterator):
            self._throw_beyond(left)

    def _misplaced(self, left: int) -> int:
        if left <= 0 or self.is_over or not has_indices(self.iterator):
            return 0
        return self._indices().misplaced(self._numbers, left)

    @property
    def is_next_short(self) -> bool:
        """Whether the next of the batches that its workers were told to make holds fewer samples than most; False where nobody knows."""
        numbers = self._numbers
        return bool(numbers) and has_indices(self.iterator) and self._indices().is_short(numbers[0])

    @property
    def _numbers(self) -> list[int]:
        """Of the batches that its workers were told to make, which of the epoch's they are as it counts."""
        return sorted(self.iterator.__dict__.get("_task_info", ()))

    def _indices(self) -> Supply:
        """What it gets its indices of, or would, where it still has its own sampler."""
        state = self.iterator.__dict__
        supply = state["_sampler_iter"]
        return supply if isinstance(supply, Supply) else Supply(supply, state["_index_sampler"], state.get("_send_idx", 0))

    @property
    def _being_made(self) -> int:
        return self.outstanding - (self.ready or 0)

    def _supply(self, indices: int | None) -> None:
        """Let it have so many more indices, or any number, and its workers as many of them as ever."""
        if not has_indices(self.iterator):
            return
        supply = self.iterator._sampler_iter = self._indices()
        supply.left = None if indices is None else max(indices, 0)
        self._top_up()

    def _throw_beyond(self, left: int) -> None:
        until_ns = now() + THROW_AWAY_NS
        while self.outstanding > left and now() < until_ns:
            if self.ready == 0:
                time.sleep(LOOK_S)
                continue
            try:
                self.take()
            except StopIteration:
                return

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
        """Give it back its own sampler, where its epoch ends as it must with that."""
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
