"""A function that the user has written, or calls in a library, inside the step's body and that is no part of the model: what watches it,
or makes its input.

Which functions hold time is timed in a few bodies. What they are for is looked at in one or two: who calls them, what they return, and
whether autograd's graph grows meanwhile, or has grown before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import MODEL_FILE, WAITING, enclosing, is_library, library_of
from slowstep.analyses.python.hot_loop import FEWEST_BODIES, PLAIN_NS, held_by_functions, untimed_shares
from slowstep.analyses.python.timed_callers import TimedCallers
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.timeline.timeline import Frame, Timeline

FORWARD = named(Named.FORWARD)
STEPS_WORK = (MODEL_FILE, *map(code, (Code.HOOK_OF_BACKWARD, Code.GRADIENTS, Code.OPTIMIZERS, Code.UPDATE)))


@dataclass(frozen=True, kw_only=True, slots=True)
class OutsideModel:
    """Such a function. `share` is of forward and what else is neither backward nor optimizer; `low` and `high` bound it."""

    name: str
    file: str
    first_line: int
    is_hook: bool  # a module's call calls it, or what calls it, and it gives nothing back: it only looks
    calls: float  # in one step
    bodies: int
    share: float
    low: float
    high: float
    makes_input: bool = False  # every call is over before the model has begun
    library: str | None = None  # whose it is, where it is not the user's
    called_at: tuple[str, int] | None = None  # of one of a library's, the file and line of the user's that stacks show to call it


def find_outside_model(timeline: Timeline, process: int, apart: frozenset[tuple[str, int]] = frozenset()) -> OutsideModel | None:
    """The one with most time; None where none was seen. Functions `apart` (file and first line) are known as callbacks."""
    calls = of_bodies(timeline, "calls", process).filter(pl.col("wall_ns").is_not_null())
    called = of_bodies(timeline, "called", process)
    if calls.is_empty() or called.is_empty() or calls["stretches"][0] < FEWEST_BODIES:
        return None
    edges = of_bodies(timeline, "call_edges", process)
    found = max(_functions(calls, edges, called, apart), key=lambda function: function.held_ns, default=None)
    if found is None:
        return None
    at_frame = (pl.col("file") == found.frame.file) & (pl.col("first_line") == found.frame.first_line)
    lines = of_bodies(timeline, "lines", process).filter(at_frame)
    each_ns = float(lines["line_ns"].sum()) / max(float(lines["count"].sum()), 1.0)
    library = library_of(found.frame)
    # Only where timing slows it is its time less: of a library's function nobody knows how much of it is Python.
    low, share, high = untimed_shares(calls, found.held_ns, each_ns if library is None else PLAIN_NS, None)
    return OutsideModel(
        name=enclosing(found.frame.function),
        file=found.frame.file,
        first_line=found.frame.first_line,
        is_hook=found.is_hook,
        makes_input=found.makes_input,
        library=library,
        called_at=None if library is None else _called_at(timeline, process, found.frame),
        calls=found.calls / float(calls["stretches"][0]),
        bodies=int(calls["stretches"][0]),
        share=share,
        low=low,
        high=high,
    )


@dataclass(frozen=True, slots=True)
class _Function:
    frame: Frame
    is_hook: bool
    makes_input: bool
    calls: float  # in all timed bodies
    held_ns: float


def _functions(calls: pl.DataFrame, edges: pl.DataFrame, called: pl.DataFrame, apart: frozenset[tuple[str, int]]) -> Iterator[_Function]:
    """The functions of which every call that was looked at is none of the model's."""
    rows = {(row["file"], row["function"], row["first_line"]): row for row in calls.iter_rows(named=True)}
    callers = TimedCallers(calls, edges)
    working = _doing_the_steps_work(calls, callers)
    # Modules are a model's.
    held_ns = held_by_functions(calls, edges, lambda callee: _is_module(callee.file))
    sums = called.group_by("file", "function", "first_line", maintain_order=True).agg(pl.col("calls", *_COUNTS).sum())
    for seen in sums.iter_rows(named=True):
        frame = Frame(file=seen["file"], function=seen["function"], first_line=seen["first_line"], line=seen["first_line"])
        row = rows.get((frame.file, frame.function, frame.first_line))
        if row is None or (frame.file, frame.first_line) in apart:
            continue
        gives_nothing = seen["nothing"] == seen["calls"]
        # What adds nothing to the graph and is called by a hook alone may as well be a part of that.
        is_beneath = seen["inside"] == seen["calls"] and seen["nodes"] == 0 and _are_hooks(row["number"], callers)
        is_hook = gives_nothing and (seen["hooks"] == seen["calls"] or is_beneath)
        # What gives something before the model has begun, and without it. Behind its first operation what computes without gradients may
        # look for what it is to learn.
        makes_input = seen["early"] == seen["calls"] and seen["nothing"] == 0 and row["number"] not in working
        # With gradients on, and nothing in the graph: no part of what is trained. A frozen model is one too, but a module.
        is_outside = seen["inside"] == seen["nodes"] == 0 and (makes_input or seen["gradient"] == seen["calls"])
        if is_library(frame):
            # What waits for another thread does nothing itself, and what is called behind a backward pass may be a part of the update.
            is_own_work = not (seen["late"] or row["number"] in working or WAITING.search(frame.file))
            if is_outside and is_own_work:
                yield _Function(frame, False, makes_input, float(row["calls"] or 0), float(row["total_ns"]))
        elif is_hook or is_outside:
            held = held_ns[frame.file, frame.function, frame.first_line]
            yield _Function(frame, is_hook, is_outside and makes_input, float(row["calls"] or 0), held.own + held.in_libraries)


def _called_at(timeline: Timeline, process: int, of: Frame) -> tuple[str, int] | None:
    """The line of the user's that most distinct stacks show right above a function; None where it stands in none."""
    frames = timeline.table("frames").filter(pl.col("process") == process)
    is_mine = (pl.col("file") == of.file) & (pl.col("function") == of.function) & (pl.col("first_line") == of.first_line)
    mine = frames.filter(is_mine).group_by("stack").agg(pl.col("depth").min().alias("at"))
    above = frames.join(mine, on="stack").filter(pl.col("depth") < pl.col("at")).sort("stack", "depth")
    nearest: dict[int, tuple[str, int]] = {}
    for stack, file, function, first, line in above.select("stack", "file", "function", "first_line", "line").iter_rows():
        if not is_library(Frame(file=file, function=function, first_line=first, line=line)):
            nearest[stack] = file, line
    return max(sorted(set(nearest.values())), key=list(nearest.values()).count, default=None)


def _doing_the_steps_work(calls: pl.DataFrame, callers: TimedCallers) -> set[int]:
    """The numbers of the functions that call the model, its backward or an update, or what calls these."""
    waiting = calls.filter(pl.any_horizontal(pl.col("file").str.contains(each.pattern) for each in STEPS_WORK))["number"].to_list()
    found: set[int] = set()
    while waiting:
        above = set(callers.of(waiting.pop())) - found
        found |= above
        waiting += above
    return found


def _are_hooks(number: int, callers: TimedCallers) -> bool:
    """Whether all that call a function are the user's functions that modules call, and not as their forward, or such that these call."""
    seen, waiting = {number}, [number]
    while waiting:
        above = callers.of(waiting.pop())
        if not above:
            return False
        for caller in set(above) - seen:
            frame = callers.frame(caller)
            if frame is None or is_library(frame) or FORWARD.search(frame.function):
                return False
            seen.add(caller)
            if not _is_called_by_modules(caller, callers):
                waiting.append(caller)
    return True


def _is_called_by_modules(number: int, callers: TimedCallers) -> bool:
    frames = [callers.frame(caller) for caller in callers.of(number)]
    return bool(frames) and all(frame is not None and _is_module(frame.file) for frame in frames)


_COUNTS = ("hooks", "inside", "gradient", "nothing", "early", "late", "nodes")


def _is_module(file: str) -> bool:
    return bool(MODEL_FILE.search(file))
