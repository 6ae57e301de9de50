"""Who called whom in stretches whose calls were timed."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from slowstep.timeline.timeline import Frame


class TimedCallers:
    """The callers of each function, by their numbers in the table of calls."""

    def __init__(self, calls: pl.DataFrame, edges: pl.DataFrame) -> None:
        self._frames = {
            row["number"]: Frame(file=row["file"], function=row["function"], first_line=row["first_line"], line=row["first_line"])
            for row in calls.iter_rows(named=True)
        }
        self._called_ns: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for caller, callee, ns in edges.select("caller", "callee", "total_ns").iter_rows():
            if caller != callee:
                self._called_ns[callee][caller] = float(ns)

    def frame(self, number: int) -> Frame | None:
        """Where a function is; None of one that was not written down."""
        return self._frames.get(number)

    def of(self, number: int) -> list[int]:
        """Those of a function, most of its time first, without itself; none where only what had begun before has called it."""
        called_ns = self._called_ns[number]
        return sorted(called_ns, key=lambda caller: -called_ns[caller])
