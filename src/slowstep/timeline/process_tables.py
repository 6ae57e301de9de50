"""The tables of the recorded processes: what their threads did, made and called, as the recorder in each of them wrote it."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.input_tables import INPUT_TABLES
from slowstep.timeline.process_columns import PROCESS
from slowstep.timeline.python_tables import PYTHON_TABLES
from slowstep.timeline.step_tables import STEP_TABLES
from slowstep.timeline.table import Table, column

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
