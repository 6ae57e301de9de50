"""What slowstep's own process costs, so that the report can print it."""

from __future__ import annotations

import time

from slowstep.record import format as contract
from slowstep.record.monitors import Monitor


class CostReader:
    """CPU time that this process has used since it began, in ns."""

    def read(self, now_ns: int) -> tuple[int, int, int]:
        """One reading: a own CPU ns."""
        return time.process_time_ns(), 0, 0

    def close(self) -> None:
        """Nothing is kept open."""


def open_cost(root: int) -> CostReader:
    """Begin reading; possible everywhere."""
    return CostReader()


MONITOR = Monitor(name="cost", kind=contract.READING_COST, open=open_cost)
