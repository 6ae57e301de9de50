"""What runs inside backward and is no part of it: hooks on gradients, such as those that write histograms of them.

On the processor a backward runs its hooks on the thread that called it, so stacks of that thread show them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.events.unions import edges_of
from slowstep.analyses.python.functions import COMPUTING, FEWEST_TO_DIVIDE, OPTIMIZERS, Path, Stacks, inside, is_comprehension, is_library
from slowstep.analyses.python.loop import LoopCall
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.intervals import Ints, overlap_ns
from slowstep.timeline.timeline import Frame

# Autograd's engine: what Python code has below it is called by a node of the graph, or by a hook.
_ENGINE = "_engine_run_backward"
# What calls the hooks of modules.
_HOOKS = code(Code.MODEL_HOOKS)


@dataclass(frozen=True, kw_only=True, slots=True)
class InBackward:
    """The hook of the user's in which most stacks inside backward stand, and the share of the window that is its."""

    name: str
    share: float


def find_in_backward(trainer: Trainer, steps: Steps, stacks: Stacks) -> InBackward | None:
    """The hook with most stacks; None with too few stacks, or where none stands in one."""
    start, end = edges_of(trainer.backwards)
    taken = _taken(steps, stacks, start, end)
    if len(taken) < FEWEST_TO_DIVIDE:
        return None
    held: Counter[LoopCall] = Counter()
    for weight, path in stacks.paths(taken.tolist()):
        hook = hook_of(path)
        if hook is not None:
            held[LoopCall(hook.function, hook.file, hook.first_line)] += round(weight)
    if not held:
        return None
    most, weight_ns = held.most_common(1)[0]
    first, last = steps.bounds_ns
    within = float(overlap_ns(start, end, np.full_like(start, first), np.full_like(end, last)).sum())
    whole = float(stacks.weight_ns[taken].sum())
    return InBackward(name=most.label(trainer.facts.script), share=weight_ns / max(whole, 1.0) * within / max(last - first, 1))


def runs_python(trainer: Trainer, steps: Steps, stacks: Stacks) -> bool | None:
    """Whether autograd's engine calls Python code: hooks, functions of the script's own, forwards that are computed again.

    None with too few stacks to say that it does not.
    """
    taken = _taken(steps, stacks, *edges_of(trainer.backwards))
    if any(_below_engine(path) for _, path in stacks.paths(taken.tolist())):
        return True
    return None if len(taken) < FEWEST_TO_DIVIDE else False


def _taken(steps: Steps, stacks: Stacks, start: Ints, end: Ints) -> Ints:
    """Which stacks of the window stand in these passes."""
    taken = inside(stacks, start, end)
    return taken[np.isin(taken, inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:]))]


def _below_engine(path: Path) -> Path:
    """What the engine has called."""
    at = max((depth for depth, frame in enumerate(path) if frame.function.endswith(_ENGINE)), default=len(path))
    return path[at + 1 :]


def hook_of(path: Path) -> Frame | None:
    """The function of the user's that a stack inside backward stands in, where a hook called it; of a lambda or a list what that calls.

    The backward of a `torch.autograd.Function`, a forward that is computed again and what compiled code does are the model's; and an update
    inside backward (`register_post_accumulate_grad_hook`) is part of the training.
    """
    below = _below_engine(path)
    called = below[next((depth for depth, frame in enumerate(below) if not _HOOKS.search(frame.file)), len(below)) :]
    if not called or COMPUTING.search(called[0].file) or any(OPTIMIZERS.search(frame.file) for frame in called):
        return None
    own = [frame for frame in called if not is_library(frame)]
    named = (frame for frame in own if not (frame.function.endswith("<lambda>") or is_comprehension(frame.function)))
    return next(named, own[0] if own else None)
