"""How much of the time the user's own Python may hold inside the steps' bodies where no calls could be timed: what stacks leave open.

Timed calls name a loop or a function in the body. Beside compiled code, and beside other threads from Python 3.12 on, none are timed
(record/steps/step_calls.py). Then stacks are left. They tell code of the user's from the work of a model that is compiled, but
not a loop in Python from one long operation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.after_update.roll_outs import forwards_of
from slowstep.analyses.ledger.trainer_spans import find_bodies
from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import COMPUTING, Path, Stacks, enclosing, in_module, inside, is_library, shown
from slowstep.analyses.python.hot_loop import FEWEST_BODIES
from slowstep.analyses.steps.cell_code import TOP_LEVEL
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.intervals import Ints, union
from slowstep.timeline.timeline import Frame, Timeline

WRITES_CODE = code(Code.GENERATED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Untimed:
    """Stacks in the user's own code inside bodies, `of` so many of all; `at_most` is the highest share of the time that they allow."""

    why: tuple[str, ...]  # as record/writing/format.py has it
    stacks: int
    of: int
    at_most: float
    most: str | None  # the function, or the line outside of functions, that most of them stand in


def find_untimed(timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks) -> Untimed | None:
    """None where calls and lines were timed in bodies, or nothing had kept them from it."""
    why = tuple(trainer.facts.notes["untimed"])
    if not why or _were_timed(timeline, trainer.process):
        return None
    whole = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    bodies = inside(stacks, *union(*find_bodies(trainer, forwards_of(trainer, stacks))))
    open_stacks = np.setdiff1d(np.intersect1d(whole, bodies), inside(stacks, *_known(trainer)))
    own = [frame for _, path in stacks.paths(open_stacks.tolist()) if (frame := _users(path)) is not None]
    names = Counter(_label(frame, trainer.facts.script) for frame in own)
    return Untimed(
        why=why,
        stacks=len(own),
        of=len(whole),
        at_most=share_bounds(len(own), len(whole))[1],
        most=names.most_common(1)[0][0] if names else None,
    )


def _were_timed(timeline: Timeline, process: int) -> bool:
    calls, lines = of_bodies(timeline, "calls", process), of_bodies(timeline, "lines", process)
    return not lines.is_empty() and not calls.is_empty() and bool(calls["stretches"][0] >= FEWEST_BODIES)


def _known(trainer: Trainer) -> tuple[Ints, Ints]:
    """Stretches of bodies of which it is known what they are: requests for input, backwards, updates, saves, and what somebody named."""
    spans = trainer.spans.filter(pl.col("kind").is_in(["backward", "save", "span"]))
    tables = (trainer.waits, trainer.other_waits, trainer.all_updates, trainer.collections, spans)
    start, end = (np.concatenate([table[edge].to_numpy() for table in tables]) for edge in ("start_ns", "end_ns"))
    return union(start, end)


def _users(path: Path) -> Frame | None:
    """The user's frame that a stack stands in: in its own lines, or, outside of models, in a library's beside the framework; else None."""
    own = next((depth for depth in range(len(path) - 1, -1, -1) if not is_library(path[depth])), None)
    if own is None or _is_generated(path, own):
        return None
    called = path[own + 1 :]
    if called and (in_module(path) or any(COMPUTING.search(frame.file) for frame in called) or path[-1].file.startswith("<")):
        return None
    return path[own]


def _is_generated(path: Path, depth: int) -> bool:
    """Whether a frame runs what a compiler has written: the compiled form of a model lies in a file that no package knows."""
    return depth > 0 and bool(WRITES_CODE.search(path[depth - 1].file))


def _label(frame: Frame, script: str | None) -> str:
    """A function with its place; a line outside of functions."""
    name, where = enclosing(frame.function), shown(frame.file, script)
    return f"{where}:{frame.line}" if TOP_LEVEL.fullmatch(name) else f"{name} ({where}:{frame.first_line})"
