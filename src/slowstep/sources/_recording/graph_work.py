"""The table of what backward passes compute."""

from __future__ import annotations

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.timeline.schema import TABLE


def graph_work_table(process: int, notes: NoteLines) -> pl.DataFrame:
    """One row a note; `process` is the index of the process in `processes`."""
    columns = [name for name in TABLE["graph_work"].schema if name not in ("process", "time_ns")]
    return TABLE["graph_work"].of([(process, note["at_ns"], *(note[name] for name in columns)) for note in notes.of("work")])
