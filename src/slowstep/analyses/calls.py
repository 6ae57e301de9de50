"""Timed calls: which function of the user's holds most of the time in which batches are made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.functions import is_library
from slowstep.timeline.timeline import Frame

# A function is named as the one that matters when it holds at least half of the time of what it is a part of.
DOMINANT_SHARE = 0.5

FETCH_FILE = "torch/utils/data/_utils/fetch.py"
COLLATE_FILE = "slowstep/record/fetches.py"

Key = tuple[str, str, int]  # file, function, first line


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """A function of the user's that holds a share of some time: where it is, and the path of user functions that leads to it.

    `python_share` is the share of it that is a loop in Python; None where that is not known.
    """

    name: str
    file: str
    line: int
    share: float
    path: tuple[str, ...]
    python_share: float | None = None

    @property
    def is_python(self) -> bool:
        """Whether most of it is known to be a loop in Python."""
        return (self.python_share or 0.0) >= DOMINANT_SHARE


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTree:
    """Functions with their total ns, and the ns that each spent in those that it called; of all processes together."""

    total_ns: dict[Key, float]
    callees: dict[Key, dict[Key, float]]
    stretches: int


def read_calls(calls: pl.DataFrame, edges: pl.DataFrame, kind: str, processes: list[int]) -> CallTree:
    """The timed calls of one kind of stretch in some processes."""
    mine = calls.filter(pl.col("kind") == kind, pl.col("process").is_in(processes))
    total: dict[Key, float] = defaultdict(float)
    callees: dict[Key, dict[Key, float]] = defaultdict(lambda: defaultdict(float))
    names: dict[tuple[int, int], Key] = {}
    for row in mine.iter_rows(named=True):
        key = (row["file"], row["function"], row["first_line"])
        names[row["process"], row["number"]] = key
        total[key] += row["total_ns"]
    for row in edges.filter(pl.col("kind") == kind, pl.col("process").is_in(processes)).iter_rows(named=True):
        caller, callee = names.get((row["process"], row["caller"])), names.get((row["process"], row["callee"]))
        if caller is not None and callee is not None:
            callees[caller][callee] += row["total_ns"]
    stretches = mine.group_by("process").agg(pl.col("stretches").max())["stretches"].sum()
    return CallTree(total_ns=dict(total), callees={k: dict(v) for k, v in callees.items()}, stretches=int(stretches))


def dominant_of_fetch(tree: CallTree, share: float) -> Function | None:
    """The deepest function of the user's that holds at least `share` of making samples (collate left out); None where none does."""
    roots = [key for key in tree.total_ns if _is(key, FETCH_FILE) and key[1].endswith("fetch")]
    whole = sum(tree.total_ns[root] - _collating(tree, root) for root in roots)
    if not roots or whole <= 0:
        return None
    root = max(roots, key=lambda key: tree.total_ns[key])
    return _deepest(tree, root, whole, share)


def dominant_within(tree: CallTree, root: Key, share: float) -> Function | None:
    """The deepest function of the user's, called by `root`, that holds at least `share` of that one's time; None where none does."""
    return _deepest(tree, root, max(tree.total_ns[root], 1.0), share)


def _deepest(tree: CallTree, root: Key, whole: float, share: float) -> Function | None:
    """The last function of the user's on the way down from `root` that holds at least `share` of `whole` ns."""
    # A comprehension is a function of its own up to Python 3.11, and a part of the one around it to everybody.
    own = [
        (k, held)
        for k, held in _descent(tree, root, share * whole)
        if not is_library(_frame(k)) and not k[1].endswith(("comp>", "genexpr>"))
    ]
    if not own:
        return None
    (file, name, line), held = own[-1]
    return Function(name=name, file=file, line=line, share=min(held / whole, 1.0), path=tuple(key[1] for key, _ in own))


def _descent(tree: CallTree, root: Key, least_ns: float) -> list[tuple[Key, float]]:
    """From the root always into the callee with most time, for as long as that has `least_ns`."""
    path: list[tuple[Key, float]] = []
    seen, here = {root}, root
    while True:
        following = {k: ns for k, ns in tree.callees.get(here, {}).items() if k not in seen and not _is(k, COLLATE_FILE)}
        here = max(following, key=lambda key: following[key], default=root)
        if here == root or following[here] < least_ns:
            return path
        seen.add(here)
        path.append((here, following[here]))


def _collating(tree: CallTree, root: Key) -> float:
    return sum(ns for key, ns in tree.callees.get(root, {}).items() if _is(key, COLLATE_FILE))


def _is(key: Key, file: str) -> bool:
    return key[0].replace("\\", "/").endswith(file)


def _frame(key: Key) -> Frame:
    return Frame(file=key[0], function=key[1], first_line=key[2], line=key[2])
