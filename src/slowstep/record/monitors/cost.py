"""What slowstep's own process costs, so that the report can print it."""

from __future__ import annotations

import time

from slowstep.record import format as contract
from slowstep.record.monitors import Monitor, Place, Reader, Reading


class CostReader(Reader):
    """CPU time that this process has used since it began, in ns."""

    def read(self, now_ns: int) -> list[Reading]:
        """One reading: a own CPU ns."""
        return [(contract.READING_COST, time.process_time_ns(), 0, 0, 0)]


def open_cost(place: Place) -> Reader:
    """Begin reading; possible everywhere."""
    return CostReader()


MONITOR = Monitor(name="cost", open=open_cost)
