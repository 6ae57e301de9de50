"""Where the part of a recording ends that a diagnosis is made of: what comes after it is an experiment, with levers on and off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from slowstep.record.format import EXPERIMENT_FILE
from slowstep.sources._recording.notes import Notes
from slowstep.sources._recording.records import Lost, Written

# A process that takes up a plan says first which levers are ready. Of what follows, lines that others refer to or that add up are kept.
FIRST = ("lever", "task")
KEPT = ("process", "text", "place", "frame", "stack", "health", "lever", "task")


def find_cut(folder: Path, launcher: Notes | None) -> int | None:
    """When it ends (CLOCK_MONOTONIC, ns): as whoever made the experiment says, else where its first plan was posted; None without one.

    `slowstep bench` posts several: in the first the training is held, and its loader is read by somebody else.
    """
    try:
        said = json.loads((folder / EXPERIMENT_FILE).read_bytes())
    except (OSError, ValueError):
        said = None
    until_ns = said.get("until_ns") if isinstance(said, dict) else None
    if isinstance(until_ns, int):
        return until_ns
    posted = launcher.of("experiment") if launcher is not None else []
    begin_ns = posted[0].get("begin_ns") if posted else None
    return begin_ns if isinstance(begin_ns, int) else None


def written_before(cut_ns: int, written: Written) -> Written:
    """The records that ended by then. Those that were not finished are the last ones of a killed process."""
    kept = written.records[written.records["t1"] <= cut_ns]
    # What the process had counted by then is no more than what is kept.
    return replace(written, records=kept, uncounted=0, lost=Lost(torn=0, malformed=written.lost.malformed))
