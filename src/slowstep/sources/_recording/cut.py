"""Where the part of a recording ends that a diagnosis is made of: what comes after it is an experiment, with levers on and off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from slowstep.record.writing.format import EXPERIMENT_FILE
from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.records import Lost, WrittenRecords
from slowstep.sources._recording.sane import LATEST_NS

# A process that takes up a plan says first which levers are ready. Of what follows, lines that others refer to or that add up are kept.
FIRST = ("lever", "task")
KEPT = ("process", "text", "place", "frame", "stack", "health", "lever", "task")


class _Said(msgspec.Struct):
    """Of the file about an experiment what is read here."""

    until_ns: Annotated[int, msgspec.Meta(ge=0, le=LATEST_NS)] | None = None


def find_cut(folder: Path, launcher: NoteLines | None) -> int | None:
    """When it ends (CLOCK_MONOTONIC, ns): as whoever made the experiment says, else where its first plan was posted; None without one.

    `slowstep bench` posts several: in the first the training is held, and its loader is read by somebody else.
    """
    try:
        until_ns = msgspec.json.decode((folder / EXPERIMENT_FILE).read_bytes(), type=_Said).until_ns
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        until_ns = None
    if until_ns is not None:
        return until_ns
    posted = launcher.of("experiment") if launcher is not None else []
    begin_ns = posted[0].get("begin_ns") if posted else None
    return begin_ns if isinstance(begin_ns, int) else None


def written_before(cut_ns: int, written: WrittenRecords) -> WrittenRecords:
    """The records that ended by then. Those that were not finished are the last ones of a killed process."""
    kept = written.records[written.records["t1"] <= cut_ns]
    # What the process had counted by then is no more than what is kept.
    return replace(written, records=kept, uncounted=0, lost=Lost(torn=0, malformed=written.lost.malformed))
