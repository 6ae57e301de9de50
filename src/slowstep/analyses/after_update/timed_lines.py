"""What a loop without a loader does between its update and its next forward, by lines and calls that were timed in a few such gaps.

Lines tell what is above the forward and what below the update. Both ways of looking slow what they look at; how much, is known by how long
the same calls take in one way and in the other, and by how long a gap is in which nobody looks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slowstep.analyses.after_update.timed_gaps import FEWEST_GAPS, SMALLEST_SHARE, GapTimes
from slowstep.analyses.python.functions import Path, is_library, same_function
from slowstep.analyses.steps.forwards import find_forwards
from slowstep.analyses.steps.trainer import Trainer
from slowstep.calibration import observing
from slowstep.timeline.timeline import Frame, Place, call_in

# By the profiler that times calls, Python 3.11: the recorder's own loop 5.7 times, others 1.0 to 4.9 times (hot_loop.py).
MOST_SLOWED = 6.0
# Of what counting calls takes, so much is left out: a call costs timing much less than tracing, in proportion less than Python code, which
# timing slows nearly as much as tracing.
CALLS_APART = observing.CALLS_APART.value


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


def find_timed_lines(trainer: Trainer, functions: Mapping[Place, GapTimes]) -> TimedLines | None:
    """The lines of the training's own functions; None where too few gaps were timed. `functions`: those that were timed."""
    note = trainer.facts.notes.get("gap_lines") or {}
    if not functions or note.get("gaps", 0) < FEWEST_GAPS:
        return None
    rows = _estimated(_measured(note, functions), _usual_gap_ns(trainer))
    whole = max(sum(ns for _, ns in rows), 1.0)
    lines = (
        TimedLine(path=path, share=ns / whole, ns_per_gap=ns)
        for row, ns in rows
        if ns >= SMALLEST_SHARE * whole and (path := _path(row, trainer))
    )
    return TimedLines(gaps=note["gaps"], lines=tuple(lines))


@dataclass(frozen=True, slots=True)
class _Measured:
    """A line, in ns per gap: while its calls were timed, and how much longer it takes where it is traced, too."""

    row: dict[str, Any]
    timed_ns: float
    longer_ns: float


def _measured(note: dict[str, Any], functions: Mapping[Place, GapTimes]) -> list[_Measured]:
    """The lines; of one whose calls were not timed, what it took where it was traced, without counting them."""
    called = _ns_in_callers(note)
    found = []
    for row in note["lines"]:
        # In proportion where other lines call a function, too.
        held = [(functions[place], row["ns"] / max(called[place], 1.0)) for place in _callees(row) if place in functions]
        traced, counting = row["ns"] / note["gaps"], row["calls"] * note["call_ns"] / note["gaps"]
        timed = sum(each.timed_ns * part for each, part in held)
        if held and counting > traced - counting:
            # Mostly calls, as a generator is: what tracing them adds says little of what timing does.
            found.append(_Measured(row, sum(each.plain_ns * part for each, part in held), 0.0))
        elif held:
            found.append(_Measured(row, min(timed, traced), max(traced - CALLS_APART * counting - timed, 0.0)))
        else:
            found.append(_Measured(row, max(traced - counting, 0.0), 0.0))
    return found


def _estimated(lines: list[_Measured], usual_ns: float) -> list[tuple[dict[str, Any], float]]:
    """Each line with its ns per gap where nobody looks. Timing slows the same code as tracing does, Python's, and less: what it adds to a
    gap is divided as what tracing adds to that.
    """
    added, longer = max(sum(line.timed_ns for line in lines) - usual_ns, 0.0), sum(line.longer_ns for line in lines)
    share = added / longer if longer else 0.0
    return [(line.row, max(line.timed_ns - share * line.longer_ns, line.timed_ns / MOST_SLOWED)) for line in lines]


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
    # Of several calls it is not known which of them takes the line's time.
    calls = [each.get("call") for each in row["callees"]]
    call = call_in(calls[0]) if len(calls) == 1 else None
    here = Frame(file=row["file"], function=row["function"], first_line=row["first_line"], line=row["line"], call=call)
    called = [Frame(file=file, function=function, first_line=first, line=first) for file, function, first in _callees(row)]
    inner = called[:1] if len(called) == 1 or all(map(is_library, called)) else []
    for way in (trainer.way_to_update, trainer.way_to_forward):
        for depth, frame in enumerate(way):
            if same_function(frame, here):
                return (*way[:depth], here, *inner)
    return ()
