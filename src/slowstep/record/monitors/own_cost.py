"""What slowstep costs beside the hooks, so that the report can print it: its own process, or its own thread in the training."""

from __future__ import annotations

import os
import time

from slowstep.record.monitors import Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.writing import format as contract


class CostReader(Reader):
    """CPU time that this process (or, inside a training, the calling thread) has used since it began, in ns."""

    def __init__(self, *, in_training: bool) -> None:
        self._clock = time.thread_time_ns if in_training else time.process_time_ns

    def read(self, now_ns: int) -> list[Reading]:
        """One reading: a own CPU ns."""
        return [(contract.READING_COST, self._clock(), 0, 0, 0)]


def open_cost(place: MonitoredCommand) -> Reader:
    """Begin reading; possible everywhere."""
    return CostReader(in_training=place.root == os.getpid())


MONITOR = Monitor(name="cost", open=open_cost)
