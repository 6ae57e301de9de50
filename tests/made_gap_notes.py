"""Notes of a recording on what was timed and counted in the gaps of a loop without a loader."""

from __future__ import annotations

from typing import Any

from made_recordings import LOOP, MS, SCRIPT

FILE, FUNCTION, FIRST, _ = LOOP
# Where every function of theirs begins.
BEGINS = 60


def note(*lines: dict[str, Any], gaps: int = 3, call_ns: float = 0.0) -> dict[str, Any]:
    """Lines of the loop that were timed in gaps."""
    rows = [{"file": FILE, "function": FUNCTION, "first_line": FIRST, "calls": 0, **row} for row in lines]
    return {"kind": "gap_lines", "gaps": gaps, "call_ns": call_ns, "lines": rows}


def line(number: int, ms: float, name: str = "", gaps: int = 3, **more: Any) -> dict[str, Any]:
    """A line that takes so many ms of a gap, and the functions that it calls."""
    callees = [{"file": SCRIPT, "function": each, "first_line": BEGINS} for each in name.split()]
    return {"line": number, "ns": int(ms * MS * gaps), "callees": callees, **more}


def timed(*functions: tuple[str, float, float], gaps: int = 3) -> dict[str, Any]:
    """What timed calls say of functions: name, ms per gap, ms of them in built-in functions."""
    rows: list[dict[str, Any]] = []
    found = {"file": SCRIPT, "line": BEGINS, "calls": gaps}
    for name, ms, built_in in functions:
        inner = {"file": "<built-in>", "function": f"built-in method of {name}", "line": 0, "calls": gaps, "callees": []}
        ns, inner_ns = int(ms * MS * gaps), int(built_in * MS * gaps)
        rows += [
            {**found, "function": name, "total_ns": ns, "own_ns": ns - inner_ns, "callees": [[len(rows) + 1, inner_ns]]},
            {**inner, "total_ns": inner_ns, "own_ns": inner_ns},
        ]
    whole = sum(row["own_ns"] for row in rows)
    return {"kind": "calls", "of": "gap", "stretches": gaps, "wall_ns": whole, "slowdown": 2.0, "whole_ns": whole, "functions": rows}


def counted(name: str, *lines: tuple[int, int, float]) -> dict[str, Any]:
    """Lines of a function that were counted in one gap: number, how often it ran, and ms in it."""
    place = {"file": SCRIPT, "function": name, "first_line": BEGINS}
    rows = [{**place, "line": number, "count": count, "ns": int(ms * MS)} for number, count, ms in lines]
    return {"kind": "lines", "of": "gap", "complete": True, "lines": rows}
