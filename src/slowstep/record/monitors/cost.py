"""What slowstep costs beside the hooks, so that the report can print it: its own process, or its own thread in the training."""

from __future__ import annotations

import os
import time

from slowstep.record import format as contract
from slowstep.record.monitors import Monitor


class CostReader:
    """CPU time that this process (or, inside a training, the calling thread) has used since it began, in ns."""

    def __init__(self, *, in_training: bool) -> None:
        self._clock = time.thread_time_ns if in_training else time.process_time_ns

    def read(self, now_ns: int) -> tuple[int, int, int]:
        """One reading: a own CPU ns."""
        return self._clock(), 0, 0

    def close(self) -> None:
        """Nothing is kept open."""


def open_cost(root: int) -> CostReader:
    """Begin reading; possible everywhere."""
    return CostReader(in_training=root == os.getpid())


MONITOR = Monitor(name="cost", kind=contract.READING_COST, open=open_cost)
