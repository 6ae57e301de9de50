"""What was measured of a trace, as the tables that `docs/tables.md` declares."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from slowstep.analyses.events.tables import LEDGER, TRACE_MEASUREMENT_TABLES
from slowstep.analyses.ledger.ledger import ledger_rows
from slowstep.analyses.measurements import Measurements
from slowstep.faults import Attempts, Results

# In which topic a table is that is none of the device's, and as what.
ELSEWHERE = {"steps": ("marks", "table"), "replay": ("replay", "table"), "loader": ("device", "requests")}


def measured_tables(m: Measurements) -> Mapping[str, pl.DataFrame]:
    """The tables by name, without those that an analysis failed to make."""
    attempt = Attempts()
    return Results({table.name: attempt.named(table.name, _table, m, table.name) for table in TRACE_MEASUREMENT_TABLES})


def _table(m: Measurements, name: str) -> pl.DataFrame:
    if name == LEDGER.name:
        return ledger_rows(m.ledger).cast(pl.Schema(LEDGER.schema))
    topic, attribute = ELSEWHERE.get(name, ("device", name))
    table: pl.DataFrame = getattr(m.topic(topic), attribute)
    return table
