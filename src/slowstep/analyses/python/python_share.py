"""How much of a function's time goes into running Python again and again: in the gaps of a loop without a loader, or in making batches.

Timed calls cannot tell it: `x[index]` is no call to them, a gather of a millisecond and a loop of a thousand lines are both the function's
own time. So its lines are counted in one gap and in one fetch (record/timing/line_counts.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from slowstep.analyses.python.calls import CallTree, Key, TimedFunction
from slowstep.analyses.python.gap_calls import BUILT_IN
from slowstep.analyses.python.hot_loop import LONGEST_NS, SHORTEST_NS
from slowstep.analyses.python.often_lines import OFTEN, share_of_often
from slowstep.frameworks._known import named
from slowstep.frameworks._words import Named
from slowstep.timeline.timeline import Timeline

PUTS_TOGETHER = re.compile(rf"\b(array|asarray|stack|concatenate)$|{named(Named.PUTS_TOGETHER).pattern}")


def find_python_share(timeline: Timeline, process: int, tree: CallTree, root: Key) -> float | None:
    """The share of a function in gaps, with all that it calls; None where its lines were not counted.

    It is the share of lines that run often and briefly, but no more than long calls of built-in functions leave: where lines are many,
    counting ends before the function does. What puts together the results of a loop goes with it.
    """
    below = _reached(tree, root)
    counted = share_of_lines(timeline, "gap", [process], below, OFTEN)
    if counted is None:
        return None
    left = 1 - _in_long_calls(timeline, process, tree, below) / max(tree.total_ns[root], 1.0)
    return float(min(counted, left))


def with_python_share(timeline: Timeline, processes: list[int], tree: CallTree, function: TimedFunction | None) -> TimedFunction | None:
    """The same of a function that holds most of making batches in some processes: of lines that run often in each call of it.

    Not known where counting ended before its first call did: what follows its loop was not seen.
    """
    if function is None:
        return None
    root = (function.file, function.name, function.line)
    calls = sum(calls for key, calls in _calls(timeline, "fetch", processes) if key == root)
    if not calls:
        return function
    return replace(function, python_share=share_of_lines(timeline, "fetch", processes, _reached(tree, root), OFTEN * calls))


def _calls(timeline: Timeline, kind: str, processes: list[int]) -> Iterator[tuple[Key, int]]:
    """Functions whose lines were counted, each with its calls that ended meanwhile."""
    rows = timeline.table("called").filter(pl.col("kind") == kind, pl.col("process").is_in(processes))
    for *key, calls in rows.select("file", "function", "first_line", "calls").iter_rows():
        yield (key[0], key[1], key[2]), calls


def share_of_lines(timeline: Timeline, kind: str, processes: list[int], below: set[Key], often: int) -> float | None:
    """Of the time of lines in functions `below`, what lines take that ran at least so `often`, and briefly; None without any.

    What counting adds to each line is left out; measured while something else ran, it may be more than the lines took with it.
    """
    rows = timeline.table("lines").filter(pl.col("kind") == kind, pl.col("process").is_in(processes))
    plain_ns = pl.col("line_ns") - pl.col("count") * pl.col("counting_ns").fill_null(0)
    plain_ns = plain_ns.clip(lower_bound=pl.min_horizontal("line_ns", pl.col("count") * SHORTEST_NS)).alias("plain_ns")
    lines = rows.group_by("file", "function", "first_line", "line", maintain_order=True).agg(pl.col("count").sum(), plain_ns.sum())
    mine = [key in below for key in lines.select("file", "function", "first_line").iter_rows()]
    return share_of_often(lines.filter(mine), often, longest_ns=LONGEST_NS, of="plain_ns")


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
