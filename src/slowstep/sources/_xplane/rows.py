"""What is read of an XPlane file, gathered piece by piece."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl

from slowstep.sources._filled import timed
from slowstep.sources._gathered import GatheredTable, Shelf


class XplaneRows:
    """What was read so far, plane by plane. `counts` has what is doubtful."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.hosts, self.devices = shelf.table("host_events"), shelf.table("device_events")
        self.steps: list[pl.DataFrame] = []
        self.handed: list[pl.DataFrame] = []
        self.threads: list[dict[str, Any]] = []
        self.device_facts: list[dict[str, Any]] = []
        self.device_steps: list[tuple[int, int, int]] = []
        self.facts: dict[str, Any] = {}
        self.first_ns: list[int] = []
        self.programs: dict[str, bool] = {}
        self.words: set[str] = set()
        self.counts: Counter[str] = Counter()

    def add(self, table: GatheredTable, frame: pl.DataFrame) -> None:
        """Append to a table the rows whose times are sane."""
        frame, bad = timed(frame, least_ns=0)
        self.counts["no times"] += bad
        if len(frame):
            self.first_ns.append(frame["start_ns"].min())  # type: ignore[arg-type]
            self.shelf.add(table, frame)
