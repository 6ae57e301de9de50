"""Batches that loader workers have made, or are making, while a lever is switched in them."""

from __future__ import annotations

import inspect
import statistics
import weakref
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.stream import ready_in
from slowstep.record.experiment.training import Training

# Readings of how many batches usually lie ready.
READINGS: Final = 8


class GatheredBatches:
    """The queue between the workers and the training. Where there are no workers, all is as it is at once."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._readings: list[int] = []
        self._switched: tuple[weakref.ref[Any], int] | None = None

    def is_known(self) -> bool:
        """Take a reading of what lies ready, as it is; whether there are enough of them."""
        ready = self._ready()
        if ready is not None and len(self._readings) < READINGS:
            self._readings.append(ready)
        return ready is None or len(self._readings) >= READINGS

    def switched(self) -> None:
        """From now on workers make other batches; those that they were told to make before are to be waited for."""
        iterator = self._training.iterator
        if iterator is None or self._ready() is None:
            self._switched = None
        else:
            self._switched = weakref.ref(iterator), iterator._rcvd_idx + len(iterator._task_info)

    def is_received(self) -> bool:
        """Whether those have been received."""
        if self._switched is None:
            return True
        iterator = self._switched[0]()
        return iterator is None or iterator is not self._training.iterator or iterator._rcvd_idx >= self._switched[1]

    def discard(self) -> None:
        """Receive what has gathered beyond what usually lies ready."""
        usual = statistics.median_low(self._readings) if self._readings else None
        while usual is not None and (self._ready() or 0) > usual:
            iterator = self._training.iterator
            try:
                inspect.unwrap(type(iterator)._next_data)(iterator)
            except StopIteration:
                # It raises it again when the training asks.
                return

    def _ready(self) -> int | None:
        iterator = self._training.iterator
        return None if iterator is None else ready_in(iterator)
