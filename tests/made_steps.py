"""The table `steps` from plain numbers, in microseconds, for tests of what is measured by step."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.events.tables import STEPS


def steps(*bounds: tuple[float, float], behind: float = 0) -> pl.DataFrame:
    """One step per pair of begin and end on the device; on the host they are as much earlier as the device is behind."""
    given = {
        "step": range(len(bounds)),
        "number": range(len(bounds)),
        "start_ns": [round(1000 * a) for a, _ in bounds],
        "end_ns": [round(1000 * b) for _, b in bounds],
        "host_start_ns": [round(1000 * (a - behind)) for a, _ in bounds],
        "host_end_ns": [round(1000 * (b - behind)) for _, b in bounds],
        "mark": ["ProfilerStep"] * len(bounds),
        "thread": [0] * len(bounds),
    }
    extra = {name: values for name, values in given.items() if name not in STEPS.schema}
    rows = pl.DataFrame({name: list(values) for name, values in given.items() if name not in extra}, schema=STEPS.schema)
    return rows.with_columns(pl.Series(name, values, dtype=pl.Int64) for name, values in extra.items())
