"""Closures: code of the script's that runs inside the optimizer's call, once (Lightning) or again and again (LBFGS).

How long the call takes before and after its backwards is exact; which part of that is the optimizer's own algebra, and which is what the
closure does beside its backward, is an estimate from stacks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.events.unions import edges_of, merged
from slowstep.analyses.python.functions import COMPUTING, FEWEST_TO_DIVIDE, Path, Stacks, inside
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.parts import BODY, OPTIMIZER, Part
from slowstep.timeline.intervals import Ints

# A framework's own optimizers, not what wraps every optimizer's call.
_OWN = code(Code.OWN_OPTIMIZERS)


@dataclass(frozen=True, slots=True)
class _OptimizerCalls:
    """Stretches of optimizers' calls in which no backward runs, and the step that each is in."""

    start_ns: Ints
    end_ns: Ints
    step: Ints


def has_closures(trainer: Trainer) -> bool:
    """Whether most updates hold a backward: then the script's own code runs inside of them."""
    backward = np.sort(trainer.backwards["start_ns"].to_numpy())
    calls = np.diff(np.searchsorted(backward, np.stack((trainer.update_start_ns, trainer.update_end_ns), axis=1)), axis=1)
    return bool((calls > 0).mean() >= 0.5) if len(calls) else False


def move_closures(trainer: Trainer, steps: Steps, stacks: Stacks, rows: dict[Part, Floats]) -> None:
    """Divide what is between a call's backwards, and after the last one, among the optimizer and the rest of the closure."""
    if OPTIMIZER not in rows or not has_closures(trainer):
        return
    between, after = _stretches(trainer, steps)
    stacks_apart = _in_named_spans(trainer, stacks)
    of_closure, of_optimizer = _share(after, stacks, stacks_apart), _share(between, stacks, stacks_apart)
    body, optimizer = rows.get(BODY, np.zeros(steps.stretches)), rows[OPTIMIZER]
    given = np.zeros(steps.stretches) if of_closure is None else np.minimum(_ns(after, steps), optimizer) * of_closure
    taken = np.zeros(steps.stretches) if of_optimizer is None else np.minimum(_ns(between, steps), body) * (1 - of_optimizer)
    rows[OPTIMIZER], rows[BODY] = optimizer - given + taken, body + given - taken


def is_closures(path: Path) -> bool:
    """Whether a stack inside an optimizer's call stands in what one of torch's optimizers has called and is not torch's."""
    at = max((depth for depth, frame in enumerate(path) if _OWN.search(frame.file)), default=len(path))
    return any(not COMPUTING.search(frame.file) for frame in path[at + 1 :])


def _stretches(trainer: Trainer, steps: Steps) -> tuple[_OptimizerCalls, _OptimizerCalls]:
    """Those from one backward of a call to its next, and those from its last to its end."""
    start, end = edges_of(trainer.outer_updates)
    begun, over = edges_of(trainer.backwards)
    call = np.searchsorted(start, begun, side="right") - 1
    held = (call >= 0) & (over <= end[call])
    begun, over, call = begun[held], over[held], call[held]
    follows = np.append(call[1:] == call[:-1], False)
    until = np.where(follows, np.append(begun[1:], 0), end[call])

    def of(mine: Ints) -> _OptimizerCalls:
        step, within = steps.stretch_at(over[mine])
        return _OptimizerCalls(over[mine][within], until[mine][within], step[within])

    return of(follows), of(~follows)


def _in_named_spans(trainer: Trainer, stacks: Stacks) -> Ints:
    """Stacks in callbacks, checkpoints and other spans that have parts of their own."""
    named = trainer.spans.filter(pl.col("kind").is_in(["save", "span"]))
    return inside(stacks, *merged(named))


def _share(stretches: _OptimizerCalls, stacks: Stacks, apart: Ints) -> float | None:
    """The closure's share of them; None where too few stacks tell."""
    taken = np.setdiff1d(inside(stacks, stretches.start_ns, stretches.end_ns), apart)
    if len(taken) < FEWEST_TO_DIVIDE:
        return None
    paths = stacks.paths(taken.tolist())
    whole = sum(weight for weight, _ in paths)
    return sum(weight for weight, path in paths if is_closures(path)) / whole if whole > 0 else None


def _ns(stretches: _OptimizerCalls, steps: Steps) -> Floats:
    length = (stretches.end_ns - stretches.start_ns).astype(np.float64)
    return np.bincount(stretches.step, weights=length, minlength=steps.stretches).astype(np.float64)
