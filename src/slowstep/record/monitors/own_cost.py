"""What slowstep costs beside the hooks, so that the report can print it: its thread that reads monitors, in a process of its own or not.

What else that process does is no cost of recording: `slowstep prove` diagnoses and estimates in it while the training goes on.
"""

from __future__ import annotations

import time

from slowstep.record.monitors import Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.writing import format as contract


class CostReader(Reader):
    """CPU time that the calling thread has used since it began, in ns."""

    def read(self, now_ns: int) -> list[Reading]:
        """One reading: a own CPU ns."""
        return [(contract.READING_COST, time.thread_time_ns(), 0, 0, 0)]


def open_cost(place: MonitoredCommand) -> Reader:
    """Begin reading; possible everywhere."""
    return CostReader()


MONITOR = Monitor(name="cost", open=open_cost)
