"""The tables of what backward passes compute."""

from __future__ import annotations

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.timeline.schema import TABLE


def graph_work_table(process: int, notes: NoteLines) -> pl.DataFrame:
    """One row a note; `process` is the index of the process in `processes`."""
    columns = [name for name in TABLE["graph_work"].schema if name not in ("process", "time_ns")]
    return TABLE["graph_work"].of([(process, note["at_ns"], *(note[name] for name in columns)) for note in notes.of("work")])


def graph_products_table(process: int, notes: NoteLines) -> pl.DataFrame:
    """One row for each of a note's; of its numbers a negative one is not known."""
    rows = [
        (process, note["at_ns"], *row[:3], *(None if number < 0 else number for number in row[3:]))
        for note in notes.of("products")
        for row in note["rows"]
    ]
    return TABLE["graph_products"].of(rows)
