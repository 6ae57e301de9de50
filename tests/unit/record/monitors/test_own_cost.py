from __future__ import annotations

import os
import threading
import time

from slowstep.record.monitors import MonitoredCommand, Reading
from slowstep.record.monitors.own_cost import open_cost
from slowstep.record.writing.format import READING_COST


def test_what_else_its_process_does_is_no_cost_of_recording() -> None:
    reader = open_cost(MonitoredCommand(os.getppid()))
    taken: list[Reading] = []
    until_ns = time.process_time_ns() + 200_000_000
    while time.process_time_ns() < until_ns:
        pass

    thread = threading.Thread(target=lambda: taken.extend(reader.read(0)))
    thread.start()
    thread.join()

    ((kind, used_ns, *_),) = taken
    assert kind == READING_COST
    assert 0 < used_ns < 100_000_000
