"""Tables, as read and as measured, as Parquet files: for anybody's own questions."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.errors import UnwritableOutput
from slowstep.exporters._exporter import Exporter, ReportMapping
from slowstep.exporters._measured_tables import measured_tables
from slowstep.findings import Finding
from slowstep.timeline.timeline import Timeline


def write(target: Path, timeline: Timeline, m: Measurements, report: ReportMapping, findings: Sequence[Finding]) -> None:
    """Write the tables that were read (docs/tables.md) and those that were measured. Raises UnwritableOutput as `write_tables`."""
    read = {table.name: timeline.table(table.name) for table in timeline.declared}
    write_tables(target, read | dict(measured_tables(m)))


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
    write=write,
)
