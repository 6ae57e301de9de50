"""The tables of a timeline, all declared in one way: row meaning, columns, types, units.

A source fills those of what it saw, states by nulls what it cannot know, and by `coverage.py` what the absence of a row says. Hooks and
profilers see other things, and what each sees has tables of its own; what both tell of hosts and devices meets in `spine.py` and
`clocks.py`, over which one ledger is charged (docs/decisions/0021-one-ledger-over-a-spine.md). Analyses read nothing else.
"""

from __future__ import annotations

import polars as pl

from slowstep.timeline.input_tables import INPUT_TABLES
from slowstep.timeline.machine_tables import MACHINE_TABLES
from slowstep.timeline.pipeline_tables import PIPELINE_TABLES
from slowstep.timeline.process_columns import PROCESS
from slowstep.timeline.python_tables import PYTHON_TABLES
from slowstep.timeline.step_tables import STEP_TABLES
from slowstep.timeline.table import Table, column
from slowstep.timeline.trace_tables import TRACE_TABLES

# Of the recorded processes: what their threads did, made and called, as the recorder in each of them wrote it.
PROCESS_TABLES: tuple[Table, ...] = (
    Table(
        name="processes",
        row="One row per recorded process.",
        columns=(
            PROCESS,
            column("pid", pl.Int64, "process id"),
            column("parent_pid", pl.Int64, "process id of its parent", nullable=True),
            column("role", pl.String, "trainer, worker or launcher"),
            column("started_ns", pl.Int64, "when recording began in it", nullable=True),
            column("ended", pl.Boolean, "it closed its recording itself (was not killed)"),
        ),
    ),
    *INPUT_TABLES,
    *STEP_TABLES,
    *PYTHON_TABLES,
)
# What hooks, stacks, counters and monitors saw. What profilers do is declared in `trace_tables.py`.
RECORDING_TABLES: tuple[Table, ...] = (*PROCESS_TABLES, *PIPELINE_TABLES, *MACHINE_TABLES)
TABLE: dict[str, Table] = {table.name: table for table in (*RECORDING_TABLES, *TRACE_TABLES)}
