"""Calls that were timed and lines that were counted, as a recording notes them, and the measurements of a training in which they were.

Times are ms, those of notes all stretches together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from made_measurements import SCRIPT, measurements
from made_parts import lines_part
from slowstep.analyses.after_update.activities import find_activities
from slowstep.analyses.after_update.gap_parts import called_in_gap
from slowstep.analyses.after_update.timed_gaps import TimedGaps, find_timed_gaps
from slowstep.analyses.compute.recurrence import find_recurrence
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.hot_loop import find_hot_loop
from slowstep.analyses.python.outside_model import find_outside_model
from slowstep.parts import BACKWARD, BODY, NOT_ATTRIBUTED, Part
from slowstep.sources._recording.lines import line_tables
from slowstep.sources._recording.notes import NoteLines
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.timeline import Timeline

Note = dict[str, Any]
# A file, a function's name, and its first line.
Function = tuple[str, str, int]
MS, GAPS, STACKS = 1e6, 3, 200
# Of a step: forward and backward together.
WORK_MS = 18.0


def calls(kind: str, wall_ms: float, *rows: tuple[Function, float, float, list[list[float]]], stretches: int = GAPS) -> Note:
    """Timed calls: (function, total ms, own ms, callees with ms) of all stretches, each called once in each."""
    functions = [
        {"file": file, "function": name, "line": line, "calls": stretches, "total_ns": int(total * MS), "own_ns": int(own * MS),
         "callees": [[int(callee), int(ms * MS)] for callee, ms in callees]}
        for (file, name, line), total, own, callees in rows
    ]  # fmt: skip
    return {"kind": "calls", "of": kind, "stretches": stretches, "wall_ns": int(wall_ms * MS), "slowdown": 1.0, "functions": functions}


def often(note: Note, function: Function, times: int) -> Note:
    """The same calls, those of one function so many."""
    rows = [{**row, "calls": times} if row["function"] == function[1] else row for row in note["functions"]]
    return {**note, "functions": rows}


def timeline_of(*notes: Note) -> Timeline:
    """The tables of these notes, of the process 0."""
    kinds: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        kinds[note["kind"]].append(note)
    tables = line_tables(0, NoteLines(lines=kinds, texts={}, places={}, health=()))
    run = RunFacts(name="made", command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    return Timeline(source="made", tables=tables, processes=(measurements().trainer.facts,), run=run, health=())


def after_update(*notes: Note, ms: float = 10.0, line: int | None = None, **changes: Any) -> Measurements:
    """A training that takes so long after every update, in what was timed there. What the loop itself calls is known to stand in that line
    of it, by stacks, where one is given; else no stack tells.
    """
    timeline = timeline_of(*notes)
    gaps = find_timed_gaps(timeline, 0)
    timed = {} if gaps is None else _timed(gaps, ms, by_line=line is not None)
    rest = {NOT_ATTRIBUTED if line is None else lines_part("output", "train.py", line): max(ms - sum(timed.values()), 0.0)}
    # As the ledger names what was timed, too, however few stacks stand in it.
    named = dict.fromkeys(timed, 0) | {part: STACKS for part in rest if part is not NOT_ATTRIBUTED}
    ledger = timed | {part: left for part, left in rest.items() if left > 1e-6}
    found = {"gaps": gaps, "activities": find_activities(timeline, 0)}
    return measurements(ledger=ledger, timed=dict.fromkeys(timed, GAPS), stacks=named, **found | changes)


def _timed(gaps: TimedGaps, ms: float, *, by_line: bool) -> dict[Part, float]:
    """The ledger's parts of the user's functions, and of what the loop itself calls of libraries where no line has that."""
    parts: dict[Part, float] = defaultdict(float)
    for function in gaps.functions:
        for stage, share in (("store", function.logging), ("output", 1 - function.logging)):
            if share > 0.05:
                parts[called_in_gap(function).part(stage, SCRIPT)] += ms * function.share * share
    for call in () if by_line else gaps.direct:
        parts[call.part] += ms * call.share
    return dict(parts)


def in_bodies(
    *notes: Note, forward_share: float = 2 / 3, ledger: Mapping[Part, Any] | None = None, stretches: int = GAPS, **changes: Any
) -> Measurements:
    """A training of 19.5 ms a step in whose bodies these calls and lines were seen; so much of forward and backward is forward."""
    timeline = timeline_of(*notes)
    work = {
        "loop": find_hot_loop(timeline, 0),
        "outside_model": find_outside_model(timeline, 0),
        "bodies_timed": stretches,
        "recurrence": find_recurrence(timeline, 0, SCRIPT),
    }
    parts = {BODY: WORK_MS * forward_share, BACKWARD: WORK_MS * (1 - forward_share), **(ledger or {})}
    return measurements(ledger=parts, work=work, **changes)
