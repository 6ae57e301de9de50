"""What host threads do by themselves that a trace names without telling a stage: long operators, compiling, allocating.

After a call that waited for the device these hold the next launch, not that call.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.device.allocations import allocator_calls
from slowstep.analyses.device.compilations import compiling
from slowstep.analyses.device.operators import computes
from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import CALL_KINDS, LAUNCHES_WORK, WAITS
from slowstep.timeline.timeline import Timeline, found_once

# A hundred launches' time at 10 us each: what lasts as long and launches nothing is work of the host's own.
LONG_NS: Final = 1_000_000
COLUMNS: Final = ("thread", "start_ns", "end_ns")


@found_once
def own_work(timeline: Timeline) -> pl.DataFrame:
    """Stretches of host threads: `thread`, `start_ns`, `end_ns`, which may overlap."""
    found = [_long_operators(timeline), compiling(timeline), allocator_calls(timeline)]
    return pl.concat([rows.select(COLUMNS) for rows in found])


def _long_operators(timeline: Timeline) -> pl.DataFrame:
    rows = timeline.rows("host_events", *COLUMNS, "name", kinds=["operator"])
    rows = rows.filter(pl.col("end_ns") - pl.col("start_ns") >= LONG_NS)
    rows = rows.filter(computes(rows["name"]))
    if rows.is_empty():
        return rows
    calls = timeline.rows("host_events", *COLUMNS, "name", kinds=CALL_KINDS)
    calls = calls.filter(matches(calls["name"], f"{LAUNCHES_WORK}|{WAITS}"))
    alone = [_alone(own, calls.filter(pl.col("thread") == own["thread"][0])) for own in rows.partition_by("thread")]
    return pl.concat(alone)


def _alone(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Those in which no call begins."""
    at = np.sort(calls["start_ns"].to_numpy())
    begun = np.searchsorted(at, rows["end_ns"].to_numpy()) - np.searchsorted(at, rows["start_ns"].to_numpy())
    return rows.filter(pl.Series(begun == 0))
