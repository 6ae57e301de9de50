"""Updates by hand: a recording's steps where no optimizer was called, and no more than backward passes where one was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.timeline.timeline import Place

# Of all updates: fewer calls of an optimizer beside a training by hand are a calibration or a probe after it. Where there are more, they
# are the training, and the backward passes were made before it (saliency, attacks) or by other processes.
TRAINING_SHARE = 0.05


def stand_ins(notes: NoteLines) -> frozenset[int]:
    """The optimizers of a process that stand for updates by hand."""
    return frozenset(int(note["id"]) for note in notes.of("optimizer") if note.get("by_hand") is True and isinstance(note.get("id"), int))


def users_of_gradients(notes: NoteLines) -> frozenset[Place]:
    """The functions in stacks and timed calls that name gradients: file, name and first line."""
    found = {place_of(row) for row in notes.of("frame") if row.get("gradients") is True}
    for note in notes.of("calls"):
        found |= {(row["file"], row["function"], row["line"]) for row in note["functions"] if row.get("gradients") is True}
    return frozenset(found)


def place_of(frame: Mapping[str, Any]) -> Place:
    """The function in which a frame stands."""
    return frame["file"], frame["function"], frame["first_line"]


def without_doubtful(updates: pl.DataFrame, processes: Sequence[frozenset[int]]) -> pl.DataFrame:
    """The updates without those by hand where an optimizer's calls are the training; `processes` are the stand-ins of each."""
    by_hand = pl.lit(False)
    for process, optimizers in enumerate(processes):
        if optimizers:
            by_hand |= (pl.col("process") == process) & pl.col("optimizer").is_in(list(optimizers))
    called = updates.filter(~by_hand)
    return updates if called.height < TRAINING_SHARE * updates.height else called
