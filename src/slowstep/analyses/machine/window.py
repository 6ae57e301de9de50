"""Readings over the window: rates of counters and readings of a moment, those left out that were taken while the training stood still."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS, Suspensions

# Readings that cover less of the window than this say nothing of it.
COVERED_AT_LEAST = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """From one instant to another, less the stretches in which the training stood still."""

    low_ns: int
    high_ns: int
    suspensions: Suspensions = NO_SUSPENSIONS

    def readings(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows whose `time_ns` lies in it, in order."""
        inside = pl.col("time_ns").is_between(self.low_ns, self.high_ns)
        for start, end in zip(self.suspensions.start_ns.tolist(), self.suspensions.end_ns.tolist(), strict=True):
            inside &= ~pl.col("time_ns").is_between(start, end)
        return table.filter(inside).sort("time_ns")


def rate(table: pl.DataFrame, column: str, window: Window) -> float | None:
    """Growth of a counter per ns over the window, or over what the readings cover of it; None where that is too little."""
    if table.height < 2:
        return None
    table = table.sort("time_ns")
    time, count = table["time_ns"].to_numpy(), table[column].to_numpy()
    low, high = max(window.low_ns, int(time[0])), min(window.high_ns, int(time[-1]))
    if high <= low or high - low < COVERED_AT_LEAST * (window.high_ns - window.low_ns):
        return None
    still_from, still_to = np.clip(window.suspensions.start_ns, low, high), np.clip(window.suspensions.end_ns, low, high)
    length = high - low - int((still_to - still_from).sum())
    first, last = np.interp([low, high], time, count)
    meanwhile = np.interp(still_to, time, count) - np.interp(still_from, time, count)
    return max(float(last - first - meanwhile.sum()), 0.0) / length if length > 0 else None
