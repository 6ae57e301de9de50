"""The line of a model's own code that holds most of its forward, and the one call of it that does, by stacks.

A line may call a whole model: a container of layers, or one after another in a loop. Whether it is one operation is told by what runs below
it, by the bytecode around it, and by how often its function is called in a step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import FEWEST_TO_DIVIDE, Path, Stacks, in_module, inside, is_comprehension, is_library, shown
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.shares import MOSTLY
from slowstep.timeline.timeline import Frame, RunningCall, Timeline

# Of its function, for each backward: more than one, to the nearest, are several operations.
ONCE = 1.5
# A recurrent layer is many operations, one after another; what a compiler has written may be a whole model.
OF_SEVERAL = tuple(map(code, (Code.RECURRENT, Code.GRADIENTS, Code.GENERATED)))
OPERATIONS = code(Code.OPERATIONS)
FORWARD = named(Named.FORWARD)
_Key = TypeVar("_Key")


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardCall:
    """The call of a line that most of its stacks stand in. `share` is of the forward, `window_share` of the training thread's time, with
    its 90 % interval by the number of stacks.

    `is_one`: whether that is one operation, called once for each backward; None where that is not known.
    """

    name: str | None  # as it is written, `self.head`; an operator's sign
    operation: str | None  # the library's module that runs in most of its stacks
    share: float
    window_share: float
    low: float
    high: float
    is_one: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardLine:
    """The line of a model's own code that holds most of its forward, by stacks; `share` is of the forward, `lines` were seen in all."""

    function: str
    where: str
    operation: str | None  # the library's module that it stands in for half of its time and more
    share: float
    forward_share: float  # of the training thread's time, by stacks
    stacks: int
    lines: int
    call: ForwardCall | None = None  # None where stacks do not tell one call of a line from another


@dataclass(frozen=True, slots=True)
class Taken:
    """A distinct stack inside a module's call: the time that it stands for, and how often it was taken."""

    weight_ns: float
    path: Path
    times: int


@dataclass(frozen=True, slots=True)
class ForwardStacks:
    """Distinct stacks inside a module's call; the time and the number of all stacks."""

    stacks: list[Taken]
    whole_ns: float
    whole: int

    @property
    def held_ns(self) -> float:
        """The time of those inside."""
        return sum(each.weight_ns for each in self.stacks)

    @property
    def taken(self) -> int:
        """How many stand inside."""
        return sum(each.times for each in self.stacks)


def find_forward_stacks(steps: Steps, stacks: Stacks) -> ForwardStacks | None:
    """The stacks of the window that stand in a module's call; None where they are too few."""
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    # A long run has a million stacks and a few thousand different ones.
    numbers, at, times = np.unique(stacks.stack[taken], return_inverse=True, return_counts=True)
    weights = np.bincount(at, weights=stacks.weight_ns[taken], minlength=len(numbers))
    paths = [stacks.frames.get(int(number), ()) for number in numbers]
    forward = [Taken(float(w), path, int(n)) for w, path, n in zip(weights, paths, times, strict=True) if in_module(path)]
    found = ForwardStacks(forward, float(weights.sum()), len(taken))
    return found if found.taken >= FEWEST_TO_DIVIDE and found.held_ns > 0 else None


@dataclass(frozen=True, slots=True)
class _Own:
    """A stack, the innermost line of the user's own in it inside the outermost module's call, and what that had called."""

    taken: Taken
    frame: Frame
    below: Path

    @property
    def modules(self) -> list[str]:
        """The library's modules below it, the outermost first."""
        return [frame.function.rpartition(".")[0] for frame in self.below if FORWARD.search(frame.function)]

    @property
    def operation(self) -> str | None:
        """The innermost of these."""
        return self.modules[-1] if self.modules else None

    @property
    def call(self) -> RunningCall | None:
        """Which call of its line it is in."""
        return self.frame.call

    @property
    def is_several(self) -> bool:
        """Whether what it had called is more than one operation: a module in a module, or what is known to be several.

        A module whose own code is not seen may hold anything.
        """
        called = any(in_module((frame,)) for frame in self.below)
        others = any(pattern.search(frame.file) for frame in self.below for pattern in OF_SEVERAL)
        return others or len(self.modules) > 1 or (called and not self.modules)

    @property
    def library_line(self) -> tuple[str, int] | None:
        """The innermost line below it of a library's that may be one of several operations; None where there is none."""
        return next(((frame.file, frame.line) for frame in reversed(self.below) if not OPERATIONS.search(frame.file)), None)


def find_forward_line(timeline: Timeline, trainer: Trainer, forward: ForwardStacks | None) -> ForwardLine | None:
    """The innermost own line of a module's with most time, of all such lines."""
    own = [found for taken in forward.stacks if (found := _own(taken)) is not None] if forward is not None else []
    if forward is None or not own:
        return None
    line, held_ns, mine = _most(own, lambda each: each.frame)
    return ForwardLine(
        function=line.function,
        where=f"{shown(line.file, trainer.facts.script)}:{line.line}",
        operation=_mostly(mine, held_ns),
        share=held_ns / forward.held_ns,
        forward_share=forward.held_ns / forward.whole_ns,
        stacks=forward.taken,
        lines=len({each.frame for each in own}),
        call=_call(timeline, trainer, forward, mine),
    )


def _call(timeline: Timeline, trainer: Trainer, forward: ForwardStacks, line: list[_Own]) -> ForwardCall | None:
    """Of the stacks in one line, the call that holds most of them."""
    call, held_ns, mine = _most(line, lambda each: each.call)
    if call is None:
        return None
    low, high = share_bounds(sum(each.taken.times for each in mine), forward.whole)
    return ForwardCall(
        name=call.name,
        operation=_mostly(mine, held_ns),
        share=held_ns / forward.held_ns,
        window_share=held_ns / forward.whole_ns,
        low=low,
        high=high,
        is_one=_is_one(timeline, trainer, call, mine),
    )


def _is_one(timeline: Timeline, trainer: Trainer, call: RunningCall, mine: list[_Own]) -> bool | None:
    frame = mine[0].frame
    if call.in_loop or is_comprehension(frame.function) or any(each.is_several for each in mine):
        return False
    of_function = (pl.col("file") == frame.file) & (pl.col("function") == frame.function) & (pl.col("first_line") == frame.first_line)
    timed = of_bodies(timeline, "calls", trainer.process).filter(of_function)
    passes = trainer.backwards_per_step
    may_be_several = len({each.library_line for each in mine} - {None}) > 1
    if may_be_several or call.in_loop is None or timed.is_empty() or timed["calls"][0] is None or not passes:
        return None
    return bool(timed["calls"][0] / max(timed["stretches"][0], 1) < ONCE * max(passes, 1.0))


def convolutions_share(forward: ForwardStacks | None) -> float | None:
    """Of the forward's time, by stacks."""
    if forward is None:
        return None
    convolutions = code(Code.CONVOLUTIONS)
    return sum(each.weight_ns for each in forward.stacks if any(convolutions.search(f.file) for f in each.path)) / forward.held_ns


def _most(own: Iterable[_Own], of: Callable[[_Own], _Key]) -> tuple[_Key, float, list[_Own]]:
    """What holds most of the time, how long, and the stacks that stand there."""
    groups: dict[_Key, list[_Own]] = defaultdict(list)
    for each in own:
        groups[of(each)].append(each)
    held = {key: sum(each.taken.weight_ns for each in mine) for key, mine in groups.items()}
    most = max(held, key=lambda key: held[key])
    return most, held[most], groups[most]


def _mostly(own: list[_Own], held_ns: float) -> str | None:
    """The operation that is most of it, where one is."""
    operation, mine_ns, _ = _most(own, lambda each: each.operation)
    # A line that calls a whole model stands in many modules: it is no more one's than another's below this.
    return operation if mine_ns >= MOSTLY * held_ns else None


def _own(taken: Taken) -> _Own | None:
    path = taken.path
    first = next((depth for depth, frame in enumerate(path) if in_module((frame,))), len(path))
    depths = [depth for depth, frame in enumerate(path) if depth > first and not is_library(frame)]
    return _Own(taken, path[depths[-1]], path[depths[-1] + 1 :]) if depths else None
