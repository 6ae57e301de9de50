"""How much of a function's time, in the gaps of a loop without a loader, goes into running Python again and again.

Timed calls cannot tell it: `x[index]` is no call to them, a gather of a millisecond and a loop of a thousand lines are both the function's
own time. So its lines are counted in one gap (record/line_counts.py).
"""

from __future__ import annotations

import re

import polars as pl

from slowstep.analyses.calls import CallTree, Key
from slowstep.analyses.gap_calls import BUILT_IN
from slowstep.analyses.hot_loop import LONGEST_NS, OFTEN
from slowstep.timeline.timeline import Timeline

PUTS_TOGETHER = re.compile(r"\b(tensor|as_tensor|stack|cat|array|asarray|concatenate)$")


def find_python_share(timeline: Timeline, process: int, tree: CallTree, root: Key) -> float | None:
    """The share of a function, with all that it calls; None where its lines were not counted.

    It is the share of lines that run often and briefly, but no more than long calls of built-in functions leave: where lines are many,
    counting ends before the function does. What puts together the results of a loop goes with it.
    """
    below = _reached(tree, root)
    rows = timeline.table("lines").filter(pl.col("process") == process, pl.col("kind") == "gap")
    mine = [row for row in rows.select("file", "function", "first_line", "count", "line_ns").iter_rows() if row[:3] in below]
    whole = sum(line_ns for *_, line_ns in mine)
    if not whole:
        return None
    often = sum(line_ns for *_, count, line_ns in mine if count >= OFTEN and line_ns <= LONGEST_NS * count)
    left = 1 - _in_long_calls(timeline, process, tree, below) / max(tree.total_ns[root], 1.0)
    return float(min(often / whole, left))


def _reached(tree: CallTree, root: Key) -> set[Key]:
    found, left = {root}, [root]
    while left:
        new = [key for key in tree.callees.get(left.pop(), {}) if key not in found]
        found.update(new)
        left += new
    return found


def _in_long_calls(timeline: Timeline, process: int, tree: CallTree, below: set[Key]) -> float:
    """Ns that functions spend in built-in ones each call of which takes long: an operation's own work, which no loop's rewriting saves."""
    calls = timeline.table("calls").filter(pl.col("process") == process, pl.col("kind") == "gap", pl.col("file").str.starts_with(BUILT_IN))
    long = {
        (file, name, line)
        for file, name, line, number, ns in calls.select("file", "function", "first_line", "calls", "total_ns").iter_rows()
        if ns > LONGEST_NS * max(number or 0, 1) and not PUTS_TOGETHER.search(name)
    }
    return sum(ns for caller in below for callee, ns in tree.callees.get(caller, {}).items() if callee in long)
