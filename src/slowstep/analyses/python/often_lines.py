"""Of lines of a function that were counted, those that run often: how much of its time is theirs.

A function that fills lists in a loop and calls one long operation with them is no loop in Python, however often its shortest line runs.
"""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from slowstep.analyses.python.calls import Key

# A line that runs so often in one call is a loop's. Run once instead, it leaves a twentieth: as much as the gain assumes is left.
OFTEN = 20
# What puts together the results of a loop goes with it (torch.stack of 64 results: 0.11 of their loop). Which lines do is not known:
# assumed is that they take no more than so much of the loop, and all that takes longer is work of its own.
PUTTING_TOGETHER = 0.25


def share_of_often(lines: pl.DataFrame, often: float, *, longest_ns: float | None = None, of: str = "line_ns") -> float | None:
    """Of the time `of` these lines, what those take that ran at least so `often`, and took `longest_ns` each time at most; None without
    any.
    """
    whole = float(lines[of].sum())
    mine = lines.filter(pl.col("count") >= often)
    if longest_ns is not None:
        mine = mine.filter(pl.col(of) <= longest_ns * pl.col("count"))
    return float(mine[of].sum()) / whole if whole else None


def ns_left(calls: pl.DataFrame) -> float:
    """What timed calls leave of the stretches: the time of functions that had begun before."""
    return max(float(calls["wall_ns"][0]) - float(calls["own_ns"].sum()), 0.0)


class OwnParts:
    """How much of a function's own time, without the functions in Python that it calls, is that of its lines that run often."""

    def __init__(self, calls: pl.DataFrame, edges: pl.DataFrame, lines: pl.DataFrame) -> None:
        self.left_ns = ns_left(calls)
        self._stretches = float(max(calls["stretches"][0], 1))
        self._rows = {row["number"]: row for row in calls.iter_rows(named=True)}
        self._numbers: dict[Key, int] = {(row["file"], row["function"], row["first_line"]): number for number, row in self._rows.items()}
        # Their time is counted for their own lines.
        counted: set[Key] = set(lines.select("file", "function", "first_line").iter_rows())
        apart = {number for key, number in self._numbers.items() if key in counted}
        self._called: dict[int | None, list[tuple[int, float]]] = defaultdict(list)
        called_ns: dict[int, float] = defaultdict(float)
        for caller, callee, ns in edges.select("caller", "callee", "total_ns").iter_rows():
            called_ns[callee] += ns
            if callee not in apart:
                self._called[caller].append((callee, ns))
        # What none of the timed has called was called by those that had begun before.
        left = ((number, row["total_ns"] - called_ns[number]) for number, row in self._rows.items() if number not in apart)
        self._called[None] = [(number, ns) for number, ns in left if ns > 0]

    def of(self, key: Key, lines: pl.DataFrame, often: float, *, has_ended: bool) -> float:
        """0 to 1, by its `lines`: all where the others may put together what those make. What has not ended while they were counted goes
        on in those that run `often`.
        """
        share = share_of_often(lines, often) or 0.0
        whole = float(lines["line_ns"].sum()) / float(lines.group_by("line").len()["len"].max() or 1)  # type: ignore[arg-type]
        others = self._own_of_others(key, (1 - share) * whole, 1 - share)
        loop = share * whole
        if not has_ended:
            loop = max(loop, self._own_ns(key) - others)
        return 1.0 if others <= PUTTING_TOGETHER * loop else loop / (loop + others)

    def _own_ns(self, key: Key) -> float:
        number = self._numbers.get(key)
        return (self.left_ns if number is None else float(self._rows[number]["own_ns"])) / self._stretches

    def _own_of_others(self, key: Key, lines_ns: float, lines_share: float) -> float:
        """What the lines that do not run often take in one stretch without the functions that are called as seldom: the model, as a rule.

        Calls and lines are of other stretches. By time and by share of the function's time: the less of both, so that neither a slow
        stretch nor what timing has added to the loop is taken for work of those lines.
        """
        if not lines_share:
            return 0.0
        number = self._numbers.get(key)
        times = 1.0 if number is None else max(float(self._rows[number]["calls"] or 0), self._stretches) / self._stretches
        called = [(self._per_stretch(callee), ns / self._stretches) for callee, ns in self._called[number]]
        seldom_ns = sum(ns for calls, ns in called if calls < OFTEN * times)
        total_ns = self._own_ns(key) + sum(ns for _, ns in called)
        by_share = (lines_share - seldom_ns / max(total_ns, 1.0)) / lines_share * lines_ns
        return max(min(lines_ns - seldom_ns, by_share), 0.0)

    def _per_stretch(self, callee: int) -> float:
        return float(self._rows[callee]["calls"] or 0) / self._stretches
