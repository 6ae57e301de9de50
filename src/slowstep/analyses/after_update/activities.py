"""The activity category of functions of the user's that ran in timed gaps: by that an advice fits what they do.

Only timed calls tell it: a loop in Python holds the GIL and lets no stack be taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import polars as pl

from slowstep.analyses.after_update.timed_gaps import Within, is_users, read_gap_calls, requests, within_libraries
from slowstep.analyses.python.functions import is_comprehension
from slowstep.analyses.python.gap_calls import GapCalls, Node
from slowstep.analyses.python.hot_loop import LONGEST_NS
from slowstep.analyses.python.often_lines import OFTEN
from slowstep.analyses.python.python_share import share_of_lines
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.shares import MOSTLY
from slowstep.timeline.timeline import Place, Timeline

# Whose work is on whole tensors or arrays; built-in functions by what they are called, or whose method they are.
ARRAYS = re.compile(rf"^(numpy|scipy|cupy)[/\\]|{code(Code.TENSORS).pattern}")
ARRAYS_BUILT_IN = re.compile(rf"\bnumpy\b|{named(Named.TENSORS).pattern}")
PICTURES = re.compile(rf"^(PIL|matplotlib|cv2|imageio|skimage|seaborn|plotly)([/\\]|\.py$)|{code(Code.PICTURES).pattern}")
PICTURES_BUILT_IN = re.compile(r"\bcv2\b|\b_imaging\b|ImagingEncoder")
COMPRESSING = re.compile(r"\b(zlib|bz2|_bz2|lzma|_lzma)\b")
# Python's own functions that compute, and methods of its own types: however long they take, they keep the GIL.
INTERPRETER = re.compile(
    r"^built-in method builtins\.(sorted|sum|min|max|any|all|len|abs|round|divmod|pow|repr|format|hash|ord|chr|isinstance)$"
    r"|of '(list|dict|set|frozenset|tuple|str|bytes|bytearray|int|float|collections\.\w+)' objects$"
)
# Of a function that calls next to nothing.
CALLS_NOTHING = 0.05


class ActivityKind(Enum):
    """What most of a function's time goes into."""

    LOOP = "a loop in Python"
    INTERPRETER = "Python's own functions"
    OWN_LINES = "lines that call nothing"
    ARRAYS = "operations on tensors or arrays"
    PICTURES = "pictures"
    COMPRESSING = "compressing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """What a function does, as far as that is known. `within`: which function of a library, or else which line, holds most of it; `inner`:
    which one of the user's.
    """

    kind: ActivityKind | None
    within: Within | None
    inner: Place | None
    inner_share: float  # of the function; 0 without one


def find_activities(timeline: Timeline, process: int) -> dict[Place, Activity]:
    """What the user's functions that ran in timed gaps did there; empty where too few were timed."""
    read = read_gap_calls(timeline, process)
    if read is None:
        return {}
    tree = read[0].without(requests)
    places = {number: _place(node) for number, node in tree.nodes.items() if is_users(node)}
    lines = _lines_within(timeline, process)
    # Where lines were counted: of a function that makes no calls nothing else tells a loop from an operation.
    loops = {number: share_of_lines(timeline, "gap", [process], {place}, OFTEN) for number, place in places.items()}
    found = {place: _activity(tree, number, loops) for number, place in places.items()}
    # The line only where neither a library's function nor one of the user's says it better, nor the line is a loop's.
    is_plain = {place: activity.kind is None and activity.within is None and activity.inner is None for place, activity in found.items()}
    return {place: replace(activity, within=lines.get(place)) if is_plain[place] else activity for place, activity in found.items()}


def _lines_within(timeline: Timeline, process: int) -> dict[Place, Within]:
    """Of functions whose lines were counted in a gap the line that holds most."""
    rows = timeline.table("lines").filter(pl.col("kind") == "gap", pl.col("process") == process)
    lines = rows.group_by("file", "function", "first_line", "line").agg(pl.col("line_ns").sum())
    whole: dict[Place, int] = defaultdict(int)
    for *place, _, ns in lines.iter_rows():
        whole[place[0], place[1], place[2]] += ns
    return {
        (file, name, first): Within(name=f"line {line}", share=ns / whole[file, name, first])
        for file, name, first, line, ns in lines.iter_rows()
        if ns >= MOSTLY * max(whole[file, name, first], 1)
    }


def _place(node: Node) -> Place:
    return node.file, node.name, node.line


def _activity(tree: GapCalls, number: int, loops: dict[int, float | None]) -> Activity:
    own = max(tree.nodes[number].total * tree.left(number), 1.0)
    shares = dict.fromkeys(ActivityKind, 0.0)
    for of, ns in (*_calls(tree, number), *_own_lines(tree, number, loops)):
        shares[of] += ns / own
    inner, share = _inner(tree, number)
    return Activity(kind=_most(shares), within=within_libraries(tree, number, own), inner=inner, inner_share=share)


def _most(shares: dict[ActivityKind, float]) -> ActivityKind | None:
    """What a function does for half of its time; that of Python's own functions, and of lines that call nothing, may be loops'."""
    most = max(shares, key=lambda kind: shares[kind])
    if shares[most] >= MOSTLY:
        return most
    kept = shares[ActivityKind.LOOP] + shares[ActivityKind.INTERPRETER]
    if kept >= MOSTLY:
        return ActivityKind.INTERPRETER
    return ActivityKind.OWN_LINES if kept + shares[ActivityKind.OWN_LINES] >= MOSTLY else None


def _calls(tree: GapCalls, number: int) -> Iterator[tuple[ActivityKind, float]]:
    """The calls of libraries, each with its untimed ns: many that are brief are a loop's, whatever they call."""
    for callee, ns in tree.in_libraries(number).items():
        node = tree.nodes[callee]
        whole = max(node.total * tree.left(callee), 1.0)
        kind = ActivityKind.LOOP if _is_loop(tree, number, ns, node.calls * ns / whole) and not node.is_logging() else _kind(node)
        if kind is not None:
            yield kind, ns


def _own_lines(tree: GapCalls, number: int, loops: dict[int, float | None]) -> Iterator[tuple[ActivityKind, float]]:
    """The time in the user's own lines that is a loop's: where many calls are made and little time lies between two of them, all of it,
    else what lines hold that run often (`loops`, its share; None where they were not counted). An operator (`a @ b`) is no call: what the
    rest does is not known, but who calls next to nothing mostly loops.
    """
    for user, share in tree.in_users(number).items():
        node = tree.nodes[user]
        calls = node.calls + sum(_calls_of(tree.nodes[callee], ns) for callee, ns in node.edges.items())
        ns = max(node.total * tree.left(user) - sum(each * tree.left(callee) for callee, each in node.edges.items()), 0.0) * share
        counted = loops.get(user)
        if _is_loop(tree, number, ns, calls * share):
            yield ActivityKind.LOOP, ns
        elif counted is not None:
            yield ActivityKind.LOOP, ns * counted
        elif sum(node.edges.values()) <= CALLS_NOTHING * node.total:
            yield ActivityKind.OWN_LINES, ns


def _calls_of(node: Node, ns: float) -> float:
    """How many of a function's calls a caller made that spends so many ns in it; what it called of itself is in neither."""
    return node.calls * min(ns / max(node.total, 1.0), 1.0)


def _is_loop(tree: GapCalls, number: int, ns: float, calls: float) -> bool:
    """Whether so many calls, which take so many ns in all, are many and brief in each call of the function."""
    return calls >= OFTEN * max(tree.nodes[number].calls, 1) and ns <= LONGEST_NS * calls


def _kind(node: Node) -> ActivityKind | None:
    """What one call of a library's function does; None where that is not known."""
    if node.is_logging():
        return None
    if not node.built_in:
        file = node.in_package
        return ActivityKind.PICTURES if PICTURES.search(file) else ActivityKind.ARRAYS if ARRAYS.search(file) else None
    if PICTURES_BUILT_IN.search(node.name):
        return ActivityKind.PICTURES
    if COMPRESSING.search(node.name):
        return ActivityKind.COMPRESSING
    if ARRAYS_BUILT_IN.search(node.name):
        return ActivityKind.ARRAYS
    return ActivityKind.INTERPRETER if INTERPRETER.search(node.name) else None


def _inner(tree: GapCalls, number: int) -> tuple[Place | None, float]:
    """Of the functions of the user's that it calls the innermost that holds most of it, and how much."""
    inner, share, seen = number, 1.0, {number}
    while True:
        node = tree.nodes[inner]
        users = {callee: ns for callee, ns in node.edges.items() if callee not in seen and _has_a_name(tree.nodes[callee])}
        most = max(users, key=lambda callee: users[callee] * tree.left(callee), default=None)
        if most is None:
            break
        below = share * users[most] * tree.left(most) / max(node.total * tree.left(inner), 1.0)
        if below < MOSTLY:
            break
        inner, share = most, min(below, 1.0)
        seen.add(inner)
    return (None, 0.0) if inner == number else (_place(tree.nodes[inner]), share)


def _has_a_name(node: Node) -> bool:
    return is_users(node) and not is_comprehension(node.name)
