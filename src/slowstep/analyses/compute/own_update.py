"""An optimizer of the script's own: which of its lines holds most of the update.

What it does tensor by tensor, in Python, may take a small part of that for all of them at once, or as long: only its author knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from slowstep.analyses.events.unions import edges_of
from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import FEWEST_STACKS, Path, Stacks, enclosing, is_library, shown
from slowstep.analyses.python.often_lines import OFTEN, share_of_often
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.intervals import Ints, containing
from slowstep.timeline.timeline import Frame, Timeline

UPDATE = code(Code.UPDATE)
# What binds a method to being without gradients stands between the framework's wrapper and the method.
WITHOUT_GRADIENTS = code(Code.DECORATOR)
# The wrapper calls hooks of the optimizer's as well.
STEP = ".step"
# Lines that run for half of the tensors, or so often in one update, run tensor by tensor. Optimizers for some tensors leave out others.
MANY_TENSORS = 0.5
_MethodKey = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnUpdate:
    """The method of the script's own optimizers that most stacks in updates stand in, and the line of it that most of them do.

    `share`: of the window; `elements`: in a tensor, on average, of what that optimizer updates (None: not known); `tensors` are so many,
    and have so many different `shapes` (None: not known). `by_tensor_share`: of the method's time, by those of its lines that ran once for
    each tensor (None: they were not counted).
    """

    name: str
    place: str
    share: float
    stacks: int
    elements: float | None
    by_tensor_share: float | None = None
    tensors: int | None = None
    shapes: int | None = None


class _Methods:
    """The methods of optimizers that stacks stand in, each by file, function and first line: for how long, and at which of its lines how
    often. `updating` is the optimizer of each stack `taken`.
    """

    def __init__(self, stacks: Stacks, taken: Ints, updating: Ints) -> None:
        self.held: Counter[_MethodKey] = Counter()
        self.lines: defaultdict[_MethodKey, Counter[int]] = defaultdict(Counter)
        self._optimizers: defaultdict[_MethodKey, Counter[int]] = defaultdict(Counter)
        for (weight, path), optimizer in zip(stacks.paths(taken.tolist()), updating.tolist(), strict=True):
            method = _method(path)
            if method is not None:
                key = method.file, enclosing(method.function), method.first_line
                self.held[key] += round(weight)
                self.lines[key][method.line] += 1
                self._optimizers[key][optimizer] += 1

    def line(self, key: _MethodKey) -> int:
        """The line of a method that most stacks stand at."""
        return self.lines[key].most_common(1)[0][0]

    def optimizer(self, key: _MethodKey) -> int:
        """The optimizer whose updates most stacks in a method were taken in."""
        return self._optimizers[key].most_common(1)[0][0]


def find_own_update(timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks) -> OwnUpdate | None:
    """None without such an optimizer, with too few stacks, and where updates call back into the training (closures)."""
    updates = _updates_of_steps(trainer, steps)
    if updates.is_empty() or _hold_backwards(trainer):
        return None
    start, end = edges_of(updates)
    at = containing(start, end, stacks.time_ns)
    taken = np.flatnonzero(at >= 0)
    methods = _Methods(stacks, taken, updates["optimizer"].to_numpy()[at[taken]])
    if len(taken) < FEWEST_STACKS or not methods.held:
        return None
    most, weight = methods.held.most_common(1)[0]
    share = weight / max(float(stacks.weight_ns[taken].sum()), 1.0) * float((end - start).sum()) / steps.length_ns
    mine = _note(trainer, methods.optimizer(most))
    tensors, elements = mine.get("tensors"), mine.get("params")
    counted = of_bodies(timeline, "lines", trainer.process)
    return OwnUpdate(
        name=most[1],
        place=f"{shown(most[0], trainer.facts.script)}:{methods.line(most)}",
        share=share,
        stacks=sum(methods.lines[most].values()),
        elements=elements / tensors if tensors and elements else None,
        by_tensor_share=_by_tensor_share(counted, most, tensors) if tensors else None,
        tensors=tensors,
        shapes=mine.get("shapes"),
    )


def _updates_of_steps(trainer: Trainer, steps: Steps) -> pl.DataFrame:
    """Those that began in a step that counts."""
    updates = trainer.outer_updates
    return updates.filter(pl.Series(steps.step_at(updates["start_ns"].to_numpy())[1]))


def _hold_backwards(trainer: Trainer) -> bool:
    return bool((containing(*edges_of(trainer.outer_updates), trainer.backwards["start_ns"].to_numpy()) >= 0).any())


def _method(path: Path) -> Frame | None:
    """What the framework's wrapper around updates calls, if it is the script's own."""
    wrappers = [i for i, frame in enumerate(path) if UPDATE.search(frame.file)]
    inner = [frame for frame in path[wrappers[-1] + 1 :] if not WITHOUT_GRADIENTS.search(frame.file)] if wrappers else []
    return inner[0] if inner and inner[0].function.endswith(STEP) and not is_library(inner[0]) else None


def _by_tensor_share(counted: pl.DataFrame, method: tuple[str, str, int], tensors: int) -> float | None:
    """Of calls that are made once for all tensors none of the time is; their lists are filled in a loop over them."""
    file, function, first_line = method
    mine = counted.filter(pl.col("file") == file, pl.col("function") == function, pl.col("first_line") == first_line)
    return share_of_often(mine, min(OFTEN, MANY_TENSORS * tensors))


def _note(trainer: Trainer, optimizer: int) -> dict[str, Any]:
    """What is known of an optimizer: how many tensors it updates, how many elements and different shapes they have."""
    return next((note for note in trainer.facts.notes["optimizers"] if note.get("id") == optimizer), {})
