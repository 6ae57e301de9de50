"""The tables of what was seen of padding: how long the sequences of batches are, and what grows with their length."""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.padding_fit import NUMBERS
from slowstep.timeline.schema import TABLE


def padding_tables(process: int, notes: NoteLines) -> dict[str, pl.DataFrame]:
    """Both, by name; `process` is the index of the process in `processes`."""
    batches = [row for note in notes.of("padded") for row in _of_batch(process, note)]
    shapes = [(process, note["at_ns"], note["nodes"], note.get("uses"), *row) for note in notes.of("shapes") for row in note["shapes"]]
    return {
        "padded_batches": TABLE["padded_batches"].of(batches),
        "graph_shapes": TABLE["graph_shapes"].of(shapes),
    }


def _of_batch(process: int, note: dict[str, Any]) -> list[tuple[Any, ...]]:
    start = (process, note["at_ns"], note["iterator"], note["batch"])
    if not note["arrays"]:
        return [(*start, *(None,) * 9)]
    return [
        (
            *start,
            *(each[key] for key in NUMBERS),
            each.get("lengths"),
            each.get("value"),
            each["side"] > 0 if "side" in each else None,
            each.get("inside"),
            each.get("values"),
            each["mask"],
        )
        for each in note["arrays"]
    ]
