"""Tables, as read and as measured, as Parquet files: for anybody's own questions."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from slowstep.analyses.ledger.ledger import ledger_rows
from slowstep.analyses.measurements import Measurements
from slowstep.errors import UnwritableOutput
from slowstep.exporters._exporter import Exporter
from slowstep.exporters._recording import exported_steps
from slowstep.findings import Finding
from slowstep.timeline.schema import RECORDING_TABLES
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import TRACE_TABLES


def write_trace(target: Path, timeline: Timeline, tables: Mapping[str, pl.DataFrame], findings: Sequence[Finding]) -> None:
    """Write a trace's tables (docs/tables.md) and what was measured of it. Raises UnwritableOutput as `write_tables`."""
    write_tables(target, {table.name: timeline.table(table.name) for table in TRACE_TABLES} | dict(tables))


def write_recording(target: Path, timeline: Timeline, m: Measurements, report: Mapping[str, Any]) -> None:
    """Write a recording's tables, and `steps` and `ledger` as measured. Raises UnwritableOutput as `write_tables`."""
    tables = {table.name: timeline.table(table.name) for table in RECORDING_TABLES}
    write_tables(target, tables | {"steps": exported_steps(m), "ledger": ledger_rows(m.ledger)})


def write_tables(target: Path, tables: Mapping[str, pl.DataFrame]) -> None:
    """Write a folder with a file for each table. Raises UnwritableOutput where it exists or cannot be written."""
    try:
        target.mkdir(parents=True)
        for name, rows in tables.items():
            rows.write_parquet(target / f"{name}.parquet")
    except FileExistsError:
        raise UnwritableOutput(f"{target} exists already, and is not written over. Give another place with --export-to.") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise UnwritableOutput(f"{target} cannot be written: {error}.") from error


EXPORTER = Exporter(
    name="parquet",
    suffix=".slowstep-tables",
    writes="a folder with all tables",
    write_trace=write_trace,
    write_recording=write_recording,
)
