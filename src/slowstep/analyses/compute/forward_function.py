"""A function of the user's that computes most of what is neither backward nor update itself: none of the library's modules, line by line.

How long it takes is timed in a few bodies. Whether that is arithmetic is told by the calls that stacks show in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import FEWEST_STACKS, Path, Stacks, enclosing, in_module, inside, is_library, shown
from slowstep.analyses.python.hot_loop import FEWEST_BODIES, PLAIN_NS, untimed_shares
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.timeline.timeline import Frame, Timeline

MULTIPLIES = tuple(map(named, (Named.MULTIPLIES, Named.CONVOLVES, Named.ATTENDS, Named.REDUCES_MUCH)))
# What is no work of the function's own forward.
OTHERS_WORK = tuple(map(code, (Code.GRADIENTS, Code.HOOK_OF_BACKWARD, Code.OPTIMIZERS, Code.UPDATE)))


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardFunction:
    """The function with most time of its own, the framework's built-in operations included.

    `share` is of forward and what else is neither backward nor update; `low` and `high` bound it. `multiplies` is the share of its stacks
    that stand in products, convolutions and attention; None where too few stand in calls that are known.
    """

    function: str
    file: str
    first_line: int
    where: str
    share: float
    low: float
    high: float
    bodies: int
    multiplies: float | None


def find_forward_function(timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks) -> ForwardFunction | None:
    """None where no calls were timed, or none of the user's."""
    calls = of_bodies(timeline, "calls", trainer.process).filter(pl.col("wall_ns").is_not_null())
    if calls.is_empty() or calls["stretches"][0] < FEWEST_BODIES:
        return None
    row = max(filter(_is_users, calls.iter_rows(named=True)), key=lambda row: int(row["own_ns"]), default=None)
    if row is None:
        return None
    low, share, high = untimed_shares(calls, float(row["own_ns"]), PLAIN_NS, None)
    return ForwardFunction(
        function=enclosing(row["function"]),
        file=row["file"],
        first_line=row["first_line"],
        where=f"{shown(row['file'], trainer.facts.script)}:{row['first_line']}",
        share=share,
        low=low,
        high=high,
        bodies=int(calls["stretches"][0]),
        multiplies=_multiplies(steps, stacks, row),
    )


def _is_users(row: dict[str, Any]) -> bool:
    return not is_library(Frame(file=row["file"], function=row["function"], first_line=row["first_line"], line=row["first_line"]))


def _multiplies(steps: Steps, stacks: Stacks, row: dict[str, Any]) -> float | None:
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    names = list(_called(stacks.paths(taken), row))
    if len(names) < FEWEST_STACKS:
        return None
    return sum(any(pattern.search(name) for pattern in MULTIPLIES) for name in names) / len(names)


def _called(paths: list[tuple[float, Path]], row: dict[str, Any]) -> Iterator[str]:
    """The last names of what the function calls itself in stacks that stand in it, where these are known."""
    for _, path in paths:
        depth = next((depth for depth in reversed(range(len(path))) if not is_library(path[depth])), None)
        below = () if depth is None else path[depth + 1 :]
        if depth is None or any(in_module((frame,)) or any(each.search(frame.file) for each in OTHERS_WORK) for frame in below):
            continue
        frame = path[depth]
        is_its = (frame.file, frame.function, frame.first_line) == (row["file"], row["function"], row["first_line"])
        if is_its and frame.call is not None and frame.call.name:
            yield frame.call.name.rpartition(".")[2]
