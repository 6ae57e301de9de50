"""The table of what known readers read in the batches that were looked at."""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.stored_reads_fit import COUNTS, TEXTS
from slowstep.timeline.schema import TABLE


def stored_reads_table(process: int, notes: NoteLines) -> pl.DataFrame:
    """By the last line, which has all of the looks that were kept; `process` is the index of the process in `processes`."""
    return TABLE["stored_reads"].of([row for look in notes.last("stored_reads").get("looks", ()) for row in _of_look(process, look)])


def _of_look(process: int, look: dict[str, Any]) -> list[tuple[Any, ...]]:
    start = (process, look["at_ns"], look["wall_ns"], look["samples"] or None)
    if not look["rows"]:
        return [(*start, *(None,) * (len(TABLE["stored_reads"].columns) - len(start)))]
    return [
        (*start, *(row[key] for key in (*TEXTS, *COUNTS)), row.get("used_bytes"), row["chunk"], row.get("selected")) for row in look["rows"]
    ]
