"""A function of the user's inside the step's body whose time goes into running Python, line by line.

Which function holds time is timed in a few bodies; that it is a loop and no long operation is told by how often its lines ran in one.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.functions import is_library
from slowstep.timeline.timeline import Frame, Timeline

# A line that ran so often in one step is a loop's; one encoder block after another is not run a hundred times.
OFTEN = 100
# A line of Python takes 0.05 to 0.3 us, one call of a tensor operation some 3 to 20 us to dispatch (benchmarks/dispatch.py: 7 to 28 us a
# node, forward and backward together). What takes longer each time is the operation's own work.
LONGEST_NS = 20_000.0
# From here on a line is more than Python: it calls an operation, which timing does not slow.
PLAIN_NS = 2_000.0
FEWEST_BODIES = 2
LARGEST_OPTIMIZER = 0.8
BACKWARD = ("slowstep/record/hooks/torch_backward.py", "backward")
OPTIMIZER = ("torch/optim/optimizer.py", "wrapper")


@dataclass(frozen=True, kw_only=True, slots=True)
class HotLoop:
    """A Python loop. `share` is of forward and what else is neither backward nor optimizer; `low` and `high` bound it."""

    name: str
    file: str
    first_line: int
    line: int
    runs: int  # of that line in one step, at least
    line_ns: float  # each time
    bodies: int
    share: float
    low: float
    high: float


def find_hot_loop(timeline: Timeline, process: int) -> HotLoop | None:
    """The function with most time in a loop of its own; None where none was seen. Of bodies that were timed."""
    calls = timeline.table("calls").filter(pl.col("process") == process, pl.col("kind") == "body", pl.col("wall_ns").is_not_null())
    lines = timeline.table("lines").filter(pl.col("process") == process)
    if calls.is_empty() or lines.is_empty() or calls["stretches"][0] < FEWEST_BODIES:
        return None
    slowdown = float(calls["slowdown"][0] or 1.0)
    own = dict(zip(calls.select("file", "function", "first_line").iter_rows(), calls["own_ns"].to_list(), strict=True))
    wall = float(calls["wall_ns"][0])
    rest = wall - _within(calls, *BACKWARD)
    # A closure that is given to the optimizer holds all of the work: its time is no optimizer's.
    rest = max(rest - optimizer if (optimizer := _within(calls, *OPTIMIZER)) < LARGEST_OPTIMIZER * wall else rest, 1.0)
    seen = float(calls["own_ns"].sum())
    found = []
    for (file, name, first), rows in lines.group_by("file", "function", "first_line"):
        frame = Frame(file=str(file), function=str(name), first_line=int(first), line=int(first))
        often = rows.filter(pl.col("count") >= OFTEN).sort("line_ns", descending=True)
        if often.is_empty() or is_library(frame):
            continue
        each = float(often["line_ns"].sum()) / float(often["count"].sum())
        if each > LONGEST_NS:
            continue
        # A function that had begun before the body is not among the timed: it has what they leave.
        held = float(own.get((file, name, first), max(wall - seen, 0.0)))
        found.append((held, frame, often, each))
    if not found:
        return None
    held, frame, often, each = max(found, key=lambda entry: entry[0])
    slowed = slowdown if each < PLAIN_NS else 1.0
    low, high = (_untimed(held, rest, factor) for factor in (slowdown, 1.0 + (slowed - 1.0) / 3))
    return HotLoop(
        name=frame.function,
        file=frame.file,
        first_line=frame.first_line,
        line=int(often["line"][0]),
        runs=int(often["count"].max()),  # type: ignore[arg-type]
        line_ns=each,
        bodies=int(calls["stretches"][0]),
        share=_untimed(held, rest, slowed),
        low=low,
        high=high,
    )


def _untimed(held: float, rest: float, slowdown: float) -> float:
    """The share of a body that a loop takes when nobody times it: it alone was slowed."""
    plain = held / slowdown
    return min(plain / max(rest - held + plain, 1.0), 1.0)


def _within(calls: pl.DataFrame, file: str, function: str) -> float:
    name = pl.col("file").str.replace_all("\\\\", "/").str.ends_with(file) & pl.col("function").str.ends_with(function)
    return float(calls.filter(name)["total_ns"].max() or 0.0)  # type: ignore[arg-type]
