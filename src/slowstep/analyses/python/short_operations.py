"""Of loops in Python, how long each operation takes: lines do several, and call functions of the user's that do more of them.

A line of a loop that takes long may be one long operation, or many short ones that a line of arithmetic does one after the other; how many
it may do is known by its instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.python.calls import Key
from slowstep.analyses.python.functions import enclosing
from slowstep.analyses.python.often_lines import OFTEN


def each_operation_ns(lines: pl.DataFrame) -> float:
    """How long an operation of these lines takes on average, where they do as many as they may; a line does one at least."""
    done = lines.select((pl.col("count") * pl.col("operations").fill_null(1).clip(lower_bound=1)).sum()).item()
    return float(lines["line_ns"].sum()) / max(float(done), 1.0)


@dataclass(frozen=True, slots=True)
class _TimedCalls:
    """Of the user's, in all timed bodies; `own_ns` with that of libraries that it calls, but for long operations."""

    calls: float
    total_ns: float
    own_ns: float


class CalledInRounds:
    """Functions of the user's that a loop calls in each of its rounds, and that do nothing but short operations themselves.

    `own_ns` is what each of the user's functions holds by itself.
    """

    def __init__(
        self, calls: pl.DataFrame, edges: pl.DataFrame, lines: pl.DataFrame, own_ns: Mapping[Key, float], longest_ns: float
    ) -> None:
        self._longest_ns = longest_ns
        self._numbers: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._found: dict[int, _TimedCalls] = {}
        for row in calls.iter_rows(named=True):
            key = (row["file"], row["function"], row["first_line"])
            self._numbers[key], self._keys[row["number"]] = row["number"], key
            self._found[row["number"]] = _TimedCalls(float(row["calls"] or 0), float(row["total_ns"]), own_ns.get(key, 0.0))
        self._short = self._of_short_operations(lines)
        self._callees: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for caller, callee, ns in edges.select("caller", "callee", "total_ns").iter_rows():
            self._callees[caller].append((callee, float(ns)))

    def ns(self, key: Key) -> float:
        """What those take that a loop in this function calls, in all timed bodies; nothing of one that had begun before, whose calls are
        not known.
        """
        number = self._numbers.get(key)
        if number is None:
            return 0.0
        most = OFTEN * max(self._found[number].calls, 1.0)
        called = ((callee, ns) for callee, ns in self._callees[number] if not self._is_within(callee, key))
        return sum(self._held(callee, ns, {number}) for callee, ns in called if self._times(callee, ns) >= most)

    def _is_within(self, callee: int, key: Key) -> bool:
        """Whether it stands in the same function, as a comprehension does, which counts with that."""
        file, name, _ = self._keys[callee]
        return file == key[0] and enclosing(name) == enclosing(key[1])

    def _of_short_operations(self, lines: pl.DataFrame) -> set[int]:
        """Those whose lines were counted, and are short operations on average."""
        counted = lines.group_by("file", "function", "first_line", maintain_order=True)
        short = (key for key, rows in counted if each_operation_ns(rows) <= self._longest_ns)
        return {self._numbers[key] for key in short if key in self._numbers}

    def _times(self, callee: int, ns: float) -> float:
        """How often one caller, in whose calls it takes so long, calls it."""
        found = self._found[callee]
        return found.calls * ns / max(found.total_ns, 1.0)

    def _held(self, number: int, ns: float, above: AbstractSet[int]) -> float:
        """Of so long in a function: what it and those that it calls do in short operations."""
        if number not in self._short or number in above:
            return 0.0
        part = ns / max(self._found[number].total_ns, 1.0)
        called = sum(self._held(callee, part * each_ns, above | {number}) for callee, each_ns in self._callees[number])
        return part * self._found[number].own_ns + called
