"""What a loop without a loader does between its update and its next forward, by lines and calls that were timed in a few such gaps.

Lines tell what is above the forward and what below the update; how long a function of the script's takes is told by timed calls, which
know what timing has cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slowstep.analyses.forwards import find_forwards
from slowstep.analyses.functions import Path, is_library, same_function
from slowstep.analyses.timed_gaps import FEWEST_GAPS, SMALLEST_SHARE, Held
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.timeline import Frame, Place

# Of Python 3.11, by a trace function: loops 2.8, loops with comparisons 4.5, those with calls more, of which counting is taken out.
MOST_SLOWED = 6.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedLine:
    """A line as a stack that stands in it, and in what it calls where that is one function. `share` is of the gaps."""

    path: Path
    share: float
    ns_per_gap: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedLines:
    """What a few timed gaps held."""

    gaps: int
    lines: tuple[TimedLine, ...]


def find_timed_lines(trainer: Trainer, functions: Mapping[Place, Held]) -> TimedLines | None:
    """The lines of the training's own functions; None where too few gaps were timed. `functions` are those of timed calls."""
    note = trainer.facts.notes.get("gap_lines") or {}
    if not functions or note.get("gaps", 0) < FEWEST_GAPS:
        return None
    rows = _estimated(_counted(note, functions), _usual_gap_ns(trainer))
    whole = max(sum(ns for _, ns in rows), 1.0)
    lines = (
        TimedLine(path=path, share=ns / whole, ns_per_gap=ns)
        for row, ns in rows
        if ns >= SMALLEST_SHARE * whole and (path := _path(row, trainer))
    )
    return TimedLines(gaps=note["gaps"], lines=tuple(lines))


@dataclass(frozen=True, slots=True)
class _Counted:
    """A line, in ns per gap: what is known of it as it is, and its Python code, which tracing has made slower."""

    row: dict[str, Any]
    known_ns: float
    slowed_ns: float


def _counted(note: dict[str, Any], functions: Mapping[Place, Held]) -> list[_Counted]:
    """The lines without what counting their calls took. One that calls none of the script's functions is not slowed; in one of which more
    than half was counting, timed calls tell how long those functions take.
    """
    called = _ns_in_callers(note)
    found = []
    for row in note["lines"]:
        # In proportion where other lines call a function, too.
        held = [(functions[place], row["ns"] / max(called[place], 1.0)) for place in _callees(row) if place in functions]
        raw, counting = row["ns"] / note["gaps"], row["calls"] * note["call_ns"] / note["gaps"]
        rest = max(raw - counting, 0.0)
        if not held:
            found.append(_Counted(row, rest, 0.0))
        elif counting > rest:
            found.append(_Counted(row, sum(each.ns * part for each, part in held), 0.0))
        else:
            built_in = min(sum(each.built_in_ns * part for each, part in held), rest)
            found.append(_Counted(row, built_in, rest - built_in))
    return found


def _estimated(lines: list[_Counted], usual_ns: float) -> list[tuple[dict[str, Any], float]]:
    """Each line with its ns per gap: Python code is as much slower as makes all of them as long as a gap is that nobody traces."""
    left = usual_ns - sum(line.known_ns for line in lines)
    slowed = sum(line.slowed_ns for line in lines)
    slowdown = min(max(slowed / left, 1.0), MOST_SLOWED) if left > 0 else MOST_SLOWED
    return [(line.row, line.known_ns + line.slowed_ns / slowdown) for line in lines]


def _usual_gap_ns(trainer: Trainer) -> float:
    """From the end of an update to the next forward that begins a body; the median."""
    forwards, ends = find_forwards(trainer.spans, trainer.update_end_ns).bodies_ns, trainer.update_end_ns
    at = np.searchsorted(forwards, ends)
    known = at < len(forwards)
    return float(np.median(forwards[at[known]] - ends[known])) if known.any() else 0.0


def _ns_in_callers(note: dict[str, Any]) -> dict[Place, float]:
    """For each function, ns in all lines that call it."""
    held: dict[Place, float] = defaultdict(float)
    for row in note["lines"]:
        for place in _callees(row):
            held[place] += row["ns"]
    return held


def _callees(row: dict[str, Any]) -> list[Place]:
    return sorted((each["file"], each["function"], each["first_line"]) for each in row["callees"])


def _path(row: dict[str, Any], trainer: Trainer) -> Path:
    """The stack that would stand in a line; empty where its function is neither on the way to the update nor to the forward."""
    here = Frame(file=row["file"], function=row["function"], first_line=row["first_line"], line=row["line"])
    called = [Frame(file=file, function=function, first_line=first, line=first) for file, function, first in _callees(row)]
    inner = called[:1] if len(called) == 1 or all(map(is_library, called)) else []
    for way in (trainer.way_to_update, trainer.way_to_forward):
        for depth, frame in enumerate(way):
            if same_function(frame, here):
                return (*way[:depth], here, *inner)
    return ()
