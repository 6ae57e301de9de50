"""Timed calls: which function of the user's holds most of the time in which batches are made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile

import polars as pl

from slowstep.analyses.python.functions import COMPUTING, PACKAGE, is_library, library_of
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.timeline import Frame, Timeline

# A function is named as the one that matters when it holds at least half of the time of what it is a part of.
DOMINANT_SHARE = 0.5
# What a function calls is named beside it from so much of the same on.
PART_SHARE = 0.1

FETCH_FILE, COLLATE = code(Code.FETCH), code(Code.HOOK_OF_COLLATE)

Key = tuple[str, str, int]  # file, function, first line
# Stands for what asks for a batch, and is none of the timed functions.
REQUEST: Key = ("", "next", 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedFunction:
    """A function of the user's, or of a library's data set, that holds a share of some time, and the path of such that leads to it.

    `python_share` is the share of it that is a loop in Python; None where that is not known. `parts`: what it calls itself, each with its
    share of the same time; `into`: what of libraries it calls.
    """

    name: str
    file: str
    line: int
    share: float
    path: tuple[str, ...]
    python_share: float | None = None
    parts: tuple[tuple[str, float], ...] = ()
    into: tuple[tuple[str, float], ...] = ()
    of_library: bool = False

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


def of_bodies(timeline: Timeline, table: str, process: int) -> pl.DataFrame:
    """The rows of a table of calls or lines that were taken in bodies of a process."""
    return timeline.table(table).filter(pl.col("process") == process, pl.col("kind") == "body")


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


def calls_per_body(timeline: Timeline, process: int) -> float:
    """How many calls of functions in Python a step's body makes, of those that were written down; 0 where none was timed."""
    mine = of_bodies(timeline, "calls", process)
    return 0.0 if mine.is_empty() else float(mine["calls"].fill_null(0).sum()) / max(float(mine["stretches"][0]), 1.0)


def dominant_of_fetch(tree: CallTree, share: float) -> TimedFunction | None:
    """The deepest function of the user's that holds at least `share` of making samples (collate left out); None where none does.

    Of a library's data set, as torchvision's, that calls nothing of the user's, the deepest function of the same library.
    """
    roots = [key for key in tree.total_ns if FETCH_FILE.search(key[0]) and key[1].endswith("fetch")]
    if not roots:
        return _dominant_of_requests(tree, share)
    whole = sum(tree.total_ns[root] - _collating(tree, root) for root in roots)
    if whole <= 0:
        return None
    root = max(roots, key=lambda key: tree.total_ns[key])
    return _deepest(tree, root, whole, share) or _deepest_of_library(tree, root, whole, share)


def _dominant_of_requests(tree: CallTree, share: float) -> TimedFunction | None:
    """The same of requests that no loader of the framework's makes batches for: from whatever `next()` has called."""
    called: dict[Key, float] = defaultdict(float)
    for caller, callees in tree.callees.items():
        for key, ns in callees.items():
            # What calls itself is called by nobody else for that.
            called[key] += ns if key != caller else 0.0
    first = {key: ns - called[key] for key, ns in tree.total_ns.items() if ns > called[key]}
    whole = sum(first.values())
    return _deepest(replace(tree, callees={**tree.callees, REQUEST: first}), REQUEST, whole, share) if whole > 0 else None


def dominant_within(tree: CallTree, root: Key, share: float) -> TimedFunction | None:
    """The deepest function of the user's, called by `root`, that holds at least `share` of that one's time; None where none does."""
    return _deepest(tree, root, max(tree.total_ns[root], 1.0), share)


def dominant_from(tree: CallTree, root: Key, whole: float, share: float) -> TimedFunction | None:
    """The deepest function of the user's, from `root` itself on, that holds at least `share` of `whole` ns; None where none does."""
    path = [(root, tree.total_ns[root]), *_descent(tree, root, share * whole)]
    return _last([(key, ns) for key, ns in path if _is_users(key) and ns >= share * whole], tree, whole, _is_users)


def _deepest(tree: CallTree, root: Key, whole: float, share: float) -> TimedFunction | None:
    """The last function of the user's on the way down from `root` that holds at least `share` of `whole` ns."""
    return _last([(k, held) for k, held in _descent(tree, root, share * whole) if _is_users(k)], tree, whole, _is_users)


def _deepest_of_library(tree: CallTree, root: Key, whole: float, share: float) -> TimedFunction | None:
    descent = [(k, held) for k, held in _descent(tree, root, share * whole) if _package(k) is not None]
    packages = [_package(k) for k, _ in descent]
    # Beyond the first package is what that one uses: a decoder, an array library.
    own = list(takewhile(lambda row: _package(row[0]) == packages[0], descent))
    found = _last(_to_whole_job(own), tree, whole, lambda key: _package(key) == packages[0])
    return None if found is None else replace(found, of_library=True)


def _to_whole_job(path: list[tuple[Key, float]]) -> list[tuple[Key, float]]:
    """A path within a library as far as the first method of the class that its last function is of, behind what makes the sample: the steps
    in which such a class does its work are nothing that its user could change one by one.
    """
    owner = path[-1][0][1].rpartition(".")[0] if path else ""
    first = next((i for i, (key, _) in enumerate(path) if i > 0 and key[1].rpartition(".")[0] == owner), len(path))
    return path[: first + 1] if owner else path


def _last(path: list[tuple[Key, float]], tree: CallTree, whole: float, is_own: Callable[[Key], bool]) -> TimedFunction | None:
    """The last function of a path, with what it calls that `is_own`; None where there is none."""
    if not path:
        return None
    key, held = path[-1]
    calls = sorted(tree.callees.get(key, {}).items(), key=lambda row: -row[1])
    called = [(callee, ns / whole) for callee, ns in calls if callee != key and ns >= PART_SHARE * whole]
    file, name, line = key
    return TimedFunction(
        name=name,
        file=file,
        line=line,
        share=min(held / whole, 1.0),
        path=tuple(key[1] for key, _ in path),
        parts=tuple((callee[1], share) for callee, share in called if is_own(callee)),
        into=tuple(
            (f"{callee[1]} ({of})", share) for callee, share in called if not is_own(callee) and (of := _library(callee)) is not None
        ),
    )


def _is_users(key: Key) -> bool:
    # A comprehension is a function of its own up to Python 3.11, and a part of the one around it to everybody.
    return not is_library(_frame(key)) and not key[1].endswith(("comp>", "genexpr>"))


def _package(key: Key) -> str | None:
    """The installed package that a function is of; None of what computes for a framework, and of what is in none."""
    found = PACKAGE.search(key[0])
    return found[1] if found is not None and not COMPUTING.search(key[0]) and not key[1].endswith(("comp>", "genexpr>")) else None


def _library(key: Key) -> str | None:
    """The library that a function is of; None of what makes batches, too."""
    return None if FETCH_FILE.search(key[0]) else library_of(_frame(key))


def _descent(tree: CallTree, root: Key, least_ns: float) -> list[tuple[Key, float]]:
    """From the root always into the callee with most time, for as long as that has `least_ns`.

    Where that was met before (generators that read from each other, recursion), into what all since then call.
    """
    path: list[tuple[Key, float]] = []
    on_way = [root]
    while True:
        following = _following(tree, on_way)
        here = max(following, key=lambda key: following[key], default=root)
        if here == root or following[here] < least_ns:
            return path
        on_way.append(here)
        path.append((here, following[here]))


def _following(tree: CallTree, on_way: list[Key]) -> dict[Key, float]:
    """What the last of some functions calls, and those with it that it calls again."""
    called = {k: ns for k, ns in tree.callees.get(on_way[-1], {}).items() if k != on_way[-1] and not COLLATE.search(k[0])}
    most = max(called, key=lambda key: called[key], default=None)
    circle = on_way[on_way.index(most) :] if most in on_way else on_way[-1:]
    following: dict[Key, float] = defaultdict(float)
    for caller in circle:
        for callee, ns in tree.callees.get(caller, {}).items():
            if callee not in on_way and not COLLATE.search(callee[0]):
                following[callee] += ns
    return following


def _collating(tree: CallTree, root: Key) -> float:
    return sum(ns for key, ns in tree.callees.get(root, {}).items() if COLLATE.search(key[0]))


def _frame(key: Key) -> Frame:
    return Frame(file=key[0], function=key[1], first_line=key[2], line=key[2])
