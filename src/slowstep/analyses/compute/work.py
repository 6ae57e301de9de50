"""What the training's own work is made of: number formats, modes, accelerators left alone, loops and lines that hold it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from slowstep.analyses.compute.untimed import Untimed, find_untimed
from slowstep.analyses.python.functions import Path, Stacks, in_module, inside, is_library, shown
from slowstep.analyses.python.hot_loop import HotLoop, find_hot_loop
from slowstep.analyses.python.named_functions import functions_in_callbacks
from slowstep.analyses.python.outside_model import OutsideModel, find_outside_model
from slowstep.analyses.python.timed_bodies import find_lengthened
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.timeline import Frame, Timeline

# The bits of record/timing/modes.py, in words.
MODES = {
    1: "anomaly detection",
    2: "deterministic algorithms",
    4: "torch's profiler",
    8: "a debugger or coverage tool (sys.settrace)",
    16: "a Python profiler (sys.setprofile)",
}
CONVOLUTION = code(Code.CONVOLUTIONS)
# Fewer stacks inside a forward name no line of it: the share of a half has a 90 % interval of 35 % to 65 % with 30.
FEWEST_FORWARD_STACKS = 30
# A line that calls a whole model stands in many modules: it is no more one's than another's below this.
MOSTLY = 0.5


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Facts about the training's own work. None is unknown."""

    loop: HotLoop | None
    beside: OutsideModel | None
    bodies_timed: int
    untimed: Untimed | None  # where calls in bodies could not be timed
    forward_line: ForwardLine | None
    convolutions: float | None  # share of the forward's time, by stacks
    dtypes: dict[str, int] | None  # elements of the anchor optimizer's parameters, by type
    modes: dict[str, float]  # what was on, and in which share of the looks; empty where none was
    looks: int
    accelerators: dict[str, int] | None  # that the process could open, by make
    accelerator_built: bool | None  # whether the installed torch can use any
    accelerators_hidden: bool  # by an environment variable: on purpose


def find_work(timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks) -> Work:
    """Gather the facts."""
    notes = trainer.facts.notes
    facts, optimizers = notes["facts"], notes["optimizers"]
    mine: dict[str, Any] = next((note for note in optimizers if note.get("id") == trainer.optimizer), {})
    forward = _forward_stacks(steps, stacks)
    modes = timeline.table("modes").filter(pl.col("process") == trainer.process)
    apart = functions_in_callbacks(trainer, stacks)
    # Of a loop that is not fed and calls no module, bodies were timed that are not the ledger's.
    are_bodies = trainer.is_fed or not trainer.training_forwards.is_empty()
    bodies = timeline.table("calls").filter(pl.col("process") == trainer.process, pl.col("kind") == "body")["stretches"]
    return Work(
        loop=find_hot_loop(timeline, trainer.process, find_lengthened(timeline, trainer), apart) if are_bodies else None,
        beside=find_outside_model(timeline, trainer.process, apart) if are_bodies else None,
        bodies_timed=int(bodies[0]) if len(bodies) else 0,
        untimed=find_untimed(timeline, trainer, steps, stacks),
        forward_line=_forward_line(trainer, forward),
        convolutions=_convolutions(forward),
        dtypes=mine.get("dtypes"),
        modes=_modes(modes, steps),
        looks=modes.height,
        accelerators=facts.get("accelerators"),
        accelerator_built=facts.get("accelerator_built"),
        accelerators_hidden=_hidden(notes.get("env") or {}),
    )


def _modes(looks: pl.DataFrame, steps: Steps) -> dict[str, float]:
    """Share of the looks inside the window in which each was on."""
    step = np.searchsorted(steps.edges_ns, looks["time_ns"].to_numpy(), side="right") - 1
    inside = (step >= 0) & (step < steps.stretches)
    # Our own capture is a profiler too.
    inside[inside] = ~steps.excluded[step[inside]]
    looks = looks.filter(pl.Series(inside))
    on, looked_at = looks["on"].to_numpy(), looks["looked_at"].to_numpy()
    found = {}
    for bit, name in MODES.items():
        looked = (looked_at & bit) != 0
        if looked.any() and (share := float(((on & bit) != 0)[looked].mean())):
            found[name] = share
    return found


def _hidden(env: dict[str, Any]) -> bool:
    return any(str(env[name]).strip() in ("", "-1") for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if name in env)


@dataclass(frozen=True, slots=True)
class _Forward:
    """Distinct stacks inside a module's call with the time that each stands for; how many were taken, and the time of all stacks."""

    paths: list[tuple[float, Path]]
    taken: int
    whole_ns: float

    @property
    def held_ns(self) -> float:
        return sum(weight for weight, _ in self.paths)


def _forward_stacks(steps: Steps, stacks: Stacks) -> _Forward | None:
    """The stacks of the window that stand in a module's call; None where they are too few."""
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    # A long run has a million stacks and a few thousand different ones.
    numbers, at, times = np.unique(stacks.stack[taken], return_inverse=True, return_counts=True)
    weights = np.bincount(at, weights=stacks.weight_ns[taken], minlength=len(numbers))
    paths = [stacks.frames.get(int(number), ()) for number in numbers]
    forward = [(float(w), path, int(n)) for w, path, n in zip(weights, paths, times, strict=True) if in_module(path)]
    found = _Forward([(w, path) for w, path, _ in forward], sum(n for _, _, n in forward), float(weights.sum()))
    return found if found.taken >= FEWEST_FORWARD_STACKS and found.held_ns > 0 else None


def _forward_line(trainer: Trainer, forward: _Forward | None) -> ForwardLine | None:
    """The innermost own line of a module's with most time, of all such lines."""
    if forward is None:
        return None
    by_line: dict[Frame, float] = defaultdict(float)
    operations: dict[Frame, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for weight, path in forward.paths:
        own, operation = _own(path)
        if own is not None:
            by_line[own] += weight
            operations[own][operation or ""] += weight
    if not by_line:
        return None
    line = max(by_line, key=lambda frame: by_line[frame])
    operation = max(operations[line], key=lambda name: operations[line][name])
    return ForwardLine(
        function=line.function,
        where=f"{shown(line.file, trainer.facts.script)}:{line.line}",
        operation=operation if operations[line][operation] >= MOSTLY * by_line[line] and operation else None,
        share=by_line[line] / forward.held_ns,
        forward_share=forward.held_ns / forward.whole_ns,
        stacks=forward.taken,
        lines=len(by_line),
    )


def _convolutions(forward: _Forward | None) -> float | None:
    if forward is None:
        return None
    return sum(weight for weight, path in forward.paths if any(CONVOLUTION.search(frame.file) for frame in path)) / forward.held_ns


def _own(path: Path) -> tuple[Frame | None, str | None]:
    """The innermost line of the user's inside the outermost module call, and the library's module that it had called."""
    first = next((depth for depth, frame in enumerate(path) if in_module((frame,))), len(path))
    below = [(depth, frame) for depth, frame in enumerate(path) if depth > first and not is_library(frame)]
    if not below:
        return None, None
    depth, frame = below[-1]
    modules = [other.function.rpartition(".")[0] for other in path[depth + 1 :] if other.function.endswith(".forward")]
    return frame, modules[-1] if modules else None
