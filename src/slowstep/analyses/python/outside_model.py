"""A function of the user's that runs inside the step's body and is no part of the model: what watches it, or makes its input.

Which functions hold time is timed in a few bodies. What they are for is looked at in one or two: who calls them, what they return, and
whether autograd's graph grows meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import MODEL_FILE, enclosing, is_library
from slowstep.analyses.python.hot_loop import FEWEST_BODIES, held_by_functions, untimed_shares
from slowstep.analyses.python.timed_callers import TimedCallers
from slowstep.frameworks._known import named
from slowstep.frameworks._words import Named
from slowstep.timeline.timeline import Frame, Timeline

FORWARD = named(Named.FORWARD)


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
    low, share, high = untimed_shares(calls, found.held_ns, each_ns, None)
    return OutsideModel(
        name=enclosing(found.frame.function),
        file=found.frame.file,
        first_line=found.frame.first_line,
        is_hook=found.is_hook,
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
    calls: float  # in all timed bodies
    held_ns: float


def _functions(calls: pl.DataFrame, edges: pl.DataFrame, called: pl.DataFrame, apart: frozenset[tuple[str, int]]) -> Iterator[_Function]:
    """The user's functions of which every call that was looked at is none of the model's."""
    rows = {(row["file"], row["function"], row["first_line"]): row for row in calls.iter_rows(named=True)}
    callers = TimedCallers(calls, edges)
    # Modules are a model's.
    held_ns = held_by_functions(calls, edges, lambda callee: _is_module(callee.file))
    sums = called.group_by("file", "function", "first_line", maintain_order=True).agg(pl.col("calls", *_COUNTS).sum())
    for seen in sums.iter_rows(named=True):
        frame = Frame(file=seen["file"], function=seen["function"], first_line=seen["first_line"], line=seen["first_line"])
        row = rows.get((frame.file, frame.function, frame.first_line))
        if row is None or is_library(frame) or (frame.file, frame.first_line) in apart:
            continue
        gives_nothing = seen["nothing"] == seen["calls"]
        # What adds nothing to the graph and is called by a hook alone may as well be a part of that.
        is_beneath = seen["inside"] == seen["calls"] and seen["nodes"] == 0 and _are_hooks(row["number"], callers)
        is_hook = gives_nothing and (seen["hooks"] == seen["calls"] or is_beneath)
        # With gradients on, and nothing in the graph: no part of what is trained. A frozen model is one too, but a module.
        is_outside = seen["inside"] == seen["nodes"] == 0 and seen["gradient"] == seen["calls"]
        if is_hook or is_outside:
            held = held_ns[frame.file, frame.function, frame.first_line]
            yield _Function(frame, is_hook, float(row["calls"] or 0), held.own + held.in_libraries)


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


_COUNTS = ("hooks", "inside", "gradient", "nothing", "nodes")


def _is_module(file: str) -> bool:
    return bool(MODEL_FILE.search(file))
