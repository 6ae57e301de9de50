"""All events of one process in an export, gathered piece by piece, with times as the export has them."""

from __future__ import annotations

from collections import Counter
from typing import Final

import polars as pl

from slowstep.health import Health, HealthKind
from slowstep.sources._filled import timed
from slowstep.sources._gathered import GatheredTable, Shelf
from slowstep.sources._nsys import device, host
from slowstep.sources._nsys.database import Database
from slowstep.sources._nsys.steps import possible_steps

OPEN_RANGES: Final = HealthKind("open-ranges", "info", "they were open when the recording ended, and are taken to end with it")


class NsysRows:
    """What was gathered: host events (`thread` is the export's id, `free` says that a range need not nest), device events (`context` is
    that of their stream), what may be steps; and in `counts` what is doubtful.
    """

    def __init__(self, shelf: Shelf) -> None:
        self.hosts = shelf.table("host_events", thread=pl.Int64, free=pl.Boolean)
        self.devices = shelf.table("device_events", context=pl.Int64)
        self.counts: Counter[str] = Counter()
        self.last_ns = 0
        self._shelf = shelf
        self._first_ns: list[int] = []
        self._steps: list[pl.DataFrame] = []

    def add(self, table: GatheredTable, frame: pl.DataFrame) -> None:
        """Append to one of the two tables the rows whose times are sane."""
        frame, bad = timed(frame)
        self.counts["no times"] += bad
        if frame.is_empty():
            return
        self._first_ns.append(frame["start_ns"].min())  # type: ignore[arg-type]
        self.last_ns = max(self.last_ns, int(frame["end_ns"].max()))  # type: ignore[arg-type]
        self._shelf.add(table, frame)

    def add_ranges(self, frame: pl.DataFrame, end_ns: int) -> None:
        """Append ranges, those that are open as if they ended at `end_ns`."""
        self.counts["open"] += frame["end_ns"].null_count()
        frame = frame.with_columns(pl.col("end_ns").fill_null(pl.max_horizontal(pl.lit(end_ns), "start_ns")))
        self._steps.append(possible_steps(timed(frame)[0]))
        self.add(self.hosts, frame)

    def first_ns(self) -> int:
        """When the first event began; 0 where there is none."""
        return min(self._first_ns, default=0)

    def doubts(self) -> list[Health]:
        """What is said of ranges that were open at the end."""
        return [OPEN_RANGES(self.counts["open"])] if self.counts["open"] else []

    def steps(self) -> pl.DataFrame:
        """Ranges that may be steps."""
        return pl.concat(self._steps)


def gather(database: Database, process: int | None, strings: pl.DataFrame, shelf: Shelf) -> NsysRows:
    """All events of a process; of every process where None is given."""
    rows = NsysRows(shelf)
    for frame in device.device_events(database, process, strings, rows.counts):
        rows.add(rows.devices, frame)
    for frame in host.calls(database, process, strings):
        rows.add(rows.hosts, frame)
    end_ns = rows.last_ns
    for frame in host.ranges(database, process, strings):
        rows.add_ranges(frame, end_ns)
    for frame in host.overhead(database, process, strings):
        rows.add(rows.hosts, frame)
    return rows
