"""What was measured, as tables: of steps that a profiler marked those that `docs/tables.md` declares, of others steps and ledger."""

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
    if not m.are_steps_marked:
        return {"steps": steps_of_window(m), LEDGER.name: ledger_rows(m.ledger)}
    attempt = Attempts()
    return Results({table.name: attempt.named(table.name, _table, m, table.name) for table in TRACE_MEASUREMENT_TABLES})


def steps_of_window(m: Measurements) -> pl.DataFrame:
    """One row per step of the window that nothing marks."""
    edges, kept = m.steps.edges_ns, ~m.steps.excluded
    return pl.DataFrame({"start_ns": edges[:-1][kept], "end_ns": edges[1:][kept]}).with_row_index("step")


def _table(m: Measurements, name: str) -> pl.DataFrame:
    if name == LEDGER.name:
        return ledger_rows(m.ledger).cast(pl.Schema(LEDGER.schema))
    topic, attribute = ELSEWHERE.get(name, ("device", name))
    table: pl.DataFrame = getattr(m.topic(topic), attribute)
    return table
