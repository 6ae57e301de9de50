"""Input that a lever gives out in place of the training loader's: what the iterator's `_next_data` is replaced by, inside the hooks."""

from __future__ import annotations

import functools
import statistics
import sys
from collections import deque
from typing import Any, Final

from slowstep.record.format import READY_UNKNOWN
from slowstep.record.hook import Undo, all_of, replace
from slowstep.record.lever import Change, NotApplicable
from slowstep.record.training import Training
from slowstep.record.waits import ready_batches

# Readings of how many batches lie ready as it is.
_READINGS: Final = 64
_KINDS: Final = ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter")


class Ring(Change):
    """Real batches, given out in turn while the change is on; workers fill their queue meanwhile and go idle.

    What has gathered by the end of a block is received and thrown away, until as many batches lie ready as usually do.
    """

    def __init__(self, training: Training, size: int) -> None:
        if training.loader is None:
            raise NotApplicable("no torch DataLoader feeds the training")
        self._training, self._size = training, size
        self._batches: list[Any] = []
        self._ready: deque[int] = deque(maxlen=_READINGS)
        self._at = 0
        self._is_on = self._is_filling = False
        self._undo: Undo = self._replace()

    def _replace(self) -> Undo:
        module = sys.modules["torch.utils.data.dataloader"]
        return all_of(
            [replace(kind, "_next_data", self._mocked(kind._next_data)) for name in _KINDS if (kind := getattr(module, name, None))]
        )

    def _mocked(self, original: Any) -> Any:
        change = self

        @functools.wraps(original)
        def _next_data(self: Any) -> Any:
            if not change._training.is_input(self):
                return original(self)
            if change._is_on:
                return change._next()
            change._look(self)
            batch = original(self)
            if len(change._batches) < change._size:
                change._batches.append(batch)
            return batch

        return _next_data

    def _next(self) -> Any:
        self.effect += 1
        self._at += 1
        return self._batches[self._at % len(self._batches)]

    def _look(self, iterator: Any) -> None:
        if (ready := ready_in(iterator)) is not None:
            self._ready.append(ready)

    def ready(self) -> bool:
        """Whether the ring is full."""
        return len(self._batches) >= self._size

    def on(self) -> None:
        """Give out batches of the ring."""
        self._is_on = True

    def off(self) -> None:
        """Give out the loader's again, after throwing away those that gathered."""
        self._is_on = False
        iterator = self._training.iterator
        usual = statistics.median(self._ready) if self._ready else None
        while usual is not None and iterator is not None and (ready_in(iterator) or 0) > usual:
            try:
                type(iterator)._next_data.__wrapped__(iterator)
            except StopIteration:
                return

    def remove(self) -> None:
        """Put the loader's own back, and let the batches go."""
        self._undo()
        self._batches.clear()


def ready_in(iterator: Any) -> int | None:
    """Batches that lie ready in an iterator with workers; None without workers, and where the system does not say."""
    state = iterator.__dict__
    if state.get("_worker_result_queue") is None:
        return None
    ready = ready_batches(state)
    return None if ready == READY_UNKNOWN else ready
