"""A function of the user's inside the step's body whose time goes into running Python, line by line.

Which function holds time is timed in a few bodies; that it is a loop and no long operation is known by how often its lines ran in one.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from slowstep.analyses.python.calls import Key, of_bodies
from slowstep.analyses.python.functions import COMPUTING, OPTIMIZERS, enclosing, is_library
from slowstep.analyses.python.often_lines import OFTEN, OwnParts, ns_left, share_of_often
from slowstep.analyses.python.short_operations import CalledInRounds, each_operation_ns
from slowstep.analyses.python.timed_bodies import Lengthened
from slowstep.calibration import python_lines
from slowstep.calibration.computing import LOOP_OPERATION
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.record.writing import own_frames
from slowstep.timeline.timeline import Frame, Timeline

# What takes longer each time is an operation's own work, and no line of Python takes less than the other.
LONGEST_NS, SHORTEST_NS = python_lines.DISPATCHING_LINE.value, python_lines.PYTHON_LINE.value
# One line of a loop may do several operations. What takes longer than this is as a rule their own work, and takes 0.7 to 1.0 times as long
# for a stack: of matrices of 16 to 32 rows eigenvalues, singular values, QR, sorting (20 to 290 us each; inverses, of 25 us, 0.24 to 0.49).
FEW_OPERATIONS_NS = 1.5 * LONGEST_NS
# Operations that take so many times what whole tensors spare of each are their own work for the greater part.
SHORT_OPERATIONS = 2
# From here on a line is more than Python: it calls an operation, which timing does not slow.
PLAIN_NS = 2_000.0
FEWEST_BODIES = 2
LARGEST_OPTIMIZER = 0.8
# Layers of a model, however small they are.
LAYERS = code(Code.LAYERS)
BACKWARD = (code(Code.HOOK_OF_BACKWARD), "backward")
OPTIMIZER = (code(Code.UPDATE), "wrapper")


@dataclass(frozen=True, kw_only=True, slots=True)
class HotLoop:
    """A Python loop. `share` is of forward and what else is neither backward nor optimizer, or of the optimizer, where `in_update`; `low`
    and `high` bound it: other lines of its function, which may work on what it makes, count only in `high`.
    """

    name: str
    file: str
    first_line: int
    line: int
    runs: int  # of that line in one step, at least
    line_ns: float  # each time
    operation_ns: float | None  # of each operation that its lines may do; None where these are not known
    bodies: int
    share: float
    low: float
    high: float
    nodes_share: float  # of the nodes of autograd's graph, that this function made; 0 where that is not known
    in_update: bool
    short_share: float = 1.0  # of those lines' time, by lines that take no longer than to dispatch a few operations


def find_hot_loop(
    timeline: Timeline, process: int, lengthened: Lengthened | None = None, apart: frozenset[tuple[str, int]] = frozenset()
) -> HotLoop | None:
    """The function with most time in a loop of its own; None where none was seen. Of bodies that were timed, and `lengthened` by it.

    Functions `apart` (file and first line) run in bodies and are no part of the training's own work: callbacks.
    """
    calls, lines = (of_bodies(timeline, table, process) for table in ("calls", "lines"))
    calls = calls.filter(pl.col("wall_ns").is_not_null())
    if calls.is_empty() or lines.is_empty() or calls["stretches"][0] < FEWEST_BODIES:
        return None
    called, edges = (of_bodies(timeline, table, process) for table in ("called", "call_edges"))
    held_ns = held_by_functions(calls, edges, _is_long_operation)
    own_parts = OwnParts(calls, edges, lines)
    own_ns = {key: held.own + held.in_libraries for key, held in held_ns.items()}
    in_rounds = CalledInRounds(calls, edges, lines, own_ns, LONGEST_NS)
    loop = max(_loops(lines, called, held_ns, own_parts, in_rounds, apart), key=lambda loop: loop.held_ns, default=None)
    if loop is None:
        return None
    name = enclosing(loop.frame.function)
    # What else is in that function: a comprehension around this one, and what makes a tensor of its list. More than that is other work.
    same = (held.own for key, held in held_ns.items() if key[0] == loop.frame.file and enclosing(key[1]) == name and key != loop.key)
    around = sum(own for own in same if own <= loop.held_ns)
    in_update = _is_in_update(calls, edges, called, loop.key)
    low, share, high = _shares(calls, lines, loop, around, lengthened, in_update=in_update)
    return HotLoop(
        name=name,
        file=loop.frame.file,
        first_line=loop.frame.first_line,
        line=int(loop.often["line"][0]),
        runs=int(loop.often["count"][0]),
        line_ns=loop.each_ns,
        operation_ns=None if loop.often["operations"].has_nulls() else each_operation_ns(loop.often),
        bodies=int(calls["stretches"][0]),
        share=share,
        low=low,
        high=high,
        nodes_share=_nodes_share(called, loop.frame),
        in_update=in_update,
        short_share=_short_share(loop.often),
    )


def _shares(
    calls: pl.DataFrame, lines: pl.DataFrame, loop: _Loop, around_ns: float, lengthened: Lengthened | None, *, in_update: bool
) -> tuple[float, float, float]:
    """What the loop holds with what is `around` it in its function: at least, as expected, and at most. Of an update it is that of the
    update.
    """
    whole_ns = _optimizer_ns(calls) if in_update else None
    low, share, _ = untimed_shares(calls, loop.held_ns + around_ns, loop.each_ns, lengthened, whole_ns)
    *_, high = untimed_shares(calls, loop.held_ns + loop.beside_ns + around_ns, loop.each_ns, lengthened, whole_ns)
    if on_line := _on_its_line(calls, lines, loop):
        # That it is all on that line is likely, not known.
        _, share, high = untimed_shares(calls, loop.held_ns + around_ns + on_line, loop.each_ns, lengthened)
    return low, share, high


def _on_its_line(calls: pl.DataFrame, lines: pl.DataFrame, loop: _Loop) -> float:
    """Ns in all timed bodies of the line that a comprehension stands in, beside the comprehension: what makes a tensor of its list.

    Only where its function had begun before the bodies, as the training loop has: others are timed. It is what all calls leave, in
    proportion to the time of that function's lines. Counting may end in the comprehension and know no line below it, which may hold a model
    that is written out there: so a module has to be called.
    """
    name = enclosing(loop.frame.function)
    mine = (pl.col("file") == loop.frame.file) & (pl.col("function") == name)
    counted, left_ns = lines.filter(mine), ns_left(calls)
    if loop.frame.function == name or counted.is_empty() or not calls.filter(mine).is_empty():
        return 0.0
    if left_ns > loop.held_ns or not calls["file"].str.contains(LAYERS.pattern).any():
        return 0.0
    on_line = counted.filter(pl.col("line").is_between(loop.frame.first_line, int(loop.often["line"][0])))
    return left_ns * float(on_line["line_ns"].sum()) / max(float(counted["line_ns"].sum()), 1.0)


def _short_share(often: pl.DataFrame) -> float:
    """Of the lines' time, what is no longer than a few operations take, or than all that a line may do."""
    few_ns, all_ns = (often["count"] * each for each in (FEW_OPERATIONS_NS, SHORT_OPERATIONS * LOOP_OPERATION.value))
    most_ns = (all_ns * often["operations"]).fill_null(0)
    of_few = often["line_ns"] * (often["line_ns"] <= few_ns)
    of_all = pl.DataFrame({"line": often["line_ns"].cast(pl.Float64), "most": most_ns}).min_horizontal()
    short = pl.DataFrame({"few": of_few.cast(pl.Float64), "all": of_all}).max_horizontal()
    return float(short.sum()) / max(float(often["line_ns"].sum()), 1.0)


def _nodes_share(called: pl.DataFrame, frame: Frame) -> float:
    own = called.filter(pl.col("file") == frame.file, pl.col("first_line") == frame.first_line)
    return min(float(own["nodes"].sum()) / max(float(own["of_nodes"].sum()), 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class _Loop:
    """Lines of a function that ran often, those with most time first: what they take in all timed bodies, what the function's other lines
    do, and what one run of them takes.
    """

    frame: Frame
    held_ns: float
    beside_ns: float
    often: pl.DataFrame
    each_ns: float

    @property
    def key(self) -> Key:
        return self.frame.file, self.frame.function, self.frame.first_line


@dataclass(frozen=True, slots=True)
class PythonTime:
    """Ns of a function's own, and in those of libraries, written in Python, that it calls."""

    own: float
    in_libraries: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """A function in timed stretches: how often it is called in one of them, and how long it takes each time."""

    file: str
    calls: float
    each_ns: float


def held_by_functions(calls: pl.DataFrame, edges: pl.DataFrame, is_left_out: Callable[[Timed], bool]) -> dict[Key, PythonTime]:
    """What each function holds of timed stretches, without the functions of libraries that are left out."""
    rows = {row["number"]: row for row in calls.iter_rows(named=True)}
    counted = {number for number, row in rows.items() if _is_of_library(row) and not is_left_out(_timed(row))}
    called: dict[int, float] = defaultdict(float)
    for caller, callee, ns in edges.select("caller", "callee", "total_ns").iter_rows():
        if callee in counted:
            called[caller] += ns
    return {(row["file"], row["function"], row["first_line"]): PythonTime(float(row["own_ns"]), called[n]) for n, row in rows.items()}


def _is_of_library(row: dict[str, Any]) -> bool:
    frame = Frame(file=row["file"], function=row["function"], first_line=row["first_line"], line=row["first_line"])
    return is_library(frame) and not own_frames.is_own(frame.file)


def _timed(row: dict[str, Any]) -> Timed:
    number = max(row["calls"] or 0, 1)
    return Timed(file=row["file"], calls=number / max(row["stretches"], 1), each_ns=row["total_ns"] / number)


def _is_long_operation(callee: Timed) -> bool:
    """Whether it is no part of a loop in Python: a layer, or an operation that takes long or is called a few times.

    One that is called again and again, and takes no longer than its dispatch, is such a loop's, as built-in operations are.
    """
    is_short = callee.each_ns <= LONGEST_NS and callee.calls >= OFTEN and not LAYERS.search(callee.file)
    return bool(COMPUTING.search(callee.file)) and not is_short


def _loops(
    lines: pl.DataFrame,
    called: pl.DataFrame,
    held_ns: dict[Key, PythonTime],
    own_parts: OwnParts,
    in_rounds: CalledInRounds,
    apart: frozenset[tuple[str, int]],
) -> Iterator[_Loop]:
    # A function that had begun before the body is not among the timed: it has what they leave.
    left = PythonTime(own_parts.left_ns)
    calls_of = dict(zip(called.select("file", "function", "first_line").iter_rows(), called["calls"].to_list(), strict=True))
    for (file, name, first), rows in lines.group_by("file", "function", "first_line", maintain_order=True):
        frame = Frame(file=str(file), function=str(name), first_line=int(first), line=int(first))
        # A long loop's call has not ended when counting does.
        most = OFTEN * max(calls_of.get((file, name, first), 1), 1)
        often = rows.filter(pl.col("count") >= most).sort("line_ns", descending=True)
        if often.is_empty() or is_library(frame) or (frame.file, frame.first_line) in apart:
            continue
        each_ns = float(often["line_ns"].sum()) / float(often["count"].sum())
        if each_operation_ns(often) <= LONGEST_NS:
            held = held_ns.get((file, name, first), left)
            # Of what it calls, the part of those lines: the others may call the model.
            part = share_of_often(rows, most) or 0.0
            # Calls that have not ended are not known, nor are those in updates.
            has_ended = bool(calls_of.get((file, name, first), 0)) or rows["complete"].fill_null(value=True).all()
            own = held.own * own_parts.of((file, name, first), rows, most, has_ended=has_ended)
            rounds = in_rounds.ns((file, name, first))
            yield _Loop(frame, own + part * held.in_libraries + rounds, held.own - own, often, each_ns)


def untimed_shares(
    calls: pl.DataFrame, held_ns: float, each_ns: float, lengthened: Lengthened | None, whole_ns: float | None = None
) -> tuple[float, float, float]:
    """What a function, of whose lines one takes `each_ns`, holds of forward and the rest of a body when nobody times it, or of `whole_ns`:
    at least, as expected, and at most. `lengthened` where it runs most of that rest's Python instructions.
    """
    rest_ns, most = whole_ns or _rest_ns(calls), float(calls["slowdown"][0] or 1.0)
    timed = min(held_ns / rest_ns, 1.0)
    if lengthened is not None and whole_ns is None:
        # What timing has added is the loop's: it runs most of the Python instructions.
        low, expected, high = (max(1 - factor * (1 - timed), 0.0) for factor in (lengthened.high, lengthened.value, lengthened.low))
        return low, expected, high
    # The recorder's own loop is of the shortest instructions. Where it was slowed 3.7 times, ten others were 1.0 to 4.9 times, and the
    # median of them 2.1 times.
    usual = math.sqrt(most) if each_ns < PLAIN_NS else 1.0
    low, expected, high = (_untimed(held_ns, rest_ns, slowed) for slowed in (most, usual, 1.0))
    return low, expected, high


def _rest_ns(calls: pl.DataFrame) -> float:
    """The bodies without backward and optimizer."""
    wall_ns, optimizer_ns = float(calls["wall_ns"][0]), _optimizer_ns(calls)
    if _holds_a_closure(calls):
        own = calls.filter(pl.col("file").str.contains(OPTIMIZERS.pattern))
        optimizer_ns = float(own["own_ns"].sum() or 0.0)
    return max(wall_ns - _within(calls, *BACKWARD) - optimizer_ns, 1.0)


def _optimizer_ns(calls: pl.DataFrame) -> float:
    return _within(calls, *OPTIMIZER)


def _holds_a_closure(calls: pl.DataFrame) -> bool:
    """One that is given to the optimizer holds all of the work: the optimizer's is only what its own functions take."""
    return _optimizer_ns(calls) >= LARGEST_OPTIMIZER * float(calls["wall_ns"][0])


def _is_in_update(calls: pl.DataFrame, edges: pl.DataFrame, called: pl.DataFrame, key: Key) -> bool:
    """Whether only an optimizer's update calls a function: none of its calls was looked at, as those outside of updates are."""
    if _holds_a_closure(calls) or key in set(called.select("file", "function", "first_line").iter_rows()):
        return False
    numbers = {
        (file, name, first): number for number, file, name, first in calls.select("number", "file", "function", "first_line").iter_rows()
    }
    callees: dict[int, list[int]] = defaultdict(list)
    for caller, callee in edges.select("caller", "callee").iter_rows():
        callees[caller].append(callee)
    found: set[int] = set()
    left = calls.filter(_is_of(*OPTIMIZER))["number"].to_list()
    while left:
        new = set(callees[left.pop()]) - found
        found |= new
        left += new
    return numbers.get(key) in found


def _untimed(held: float, rest: float, slowdown: float) -> float:
    """The share of a body that a loop takes when nobody times it: it alone was slowed."""
    plain = held / slowdown
    return min(plain / max(rest - held + plain, 1.0), 1.0)


def _within(calls: pl.DataFrame, files: re.Pattern[str], function: str) -> float:
    return float(calls.filter(_is_of(files, function))["total_ns"].max() or 0.0)  # type: ignore[arg-type]


def _is_of(files: re.Pattern[str], function: str) -> pl.Expr:
    return pl.col("file").str.contains(files.pattern) & pl.col("function").str.ends_with(function)
