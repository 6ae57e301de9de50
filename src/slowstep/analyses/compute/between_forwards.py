"""What lies between the forwards of one step, which nothing names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import Stacks, inside
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.parts import BACKWARD, BODY
from slowstep.timeline.intervals import Ints, union
from slowstep.timeline.timeline import Timeline

# Forwards per step from which on what lies between them may be anything: a student and its teacher make two.
SEVERAL_FORWARDS = 3
# torch.autograd.grad is no span: TorchScript knows it by its identity, so models that script it would not compile with a hook in its place.
_AUTOGRAD = code(Code.GRADIENTS)
_GRAD, _BACKWARD = "grad", "backward"


@dataclass(frozen=True, kw_only=True, slots=True)
class BetweenForwards:
    """What lies between forwards of one step, as shares of the steps' time.

    `unknown_share` is what nothing tells of; `gradients_share` is `torch.autograd.grad` there, as in the inner loop of meta-learning.
    """

    unknown_share: float
    gradients_share: float


NOTHING = BetweenForwards(unknown_share=0.0, gradients_share=0.0)


def find_between_forwards(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger, stacks: Stacks) -> BetweenForwards:
    """What lies between forwards that no backward parts: a roll-out's environment, for instance.

    Nothing where requests for input or a single forward show where the input ends, and where forwards are not recorded. Forwards inside the
    optimizer's call are its closure's (LBFGS): what lies between them is the optimizer's own work. What comes before a backward or after
    it is the loss, or the next network's turn.
    """
    forwards = trainer.training_forwards
    start, end = forwards["start_ns"].to_numpy(), forwards["end_ns"].to_numpy()
    update = np.searchsorted(trainer.update_start_ns, start, side="right") - 1
    outside = (update < 0) | (end > trainer.update_end_ns[update])
    start, end = start[outside], end[outside]
    stretch, inside = steps.step_at(start)
    if trainer.is_fed or inside.sum() < SEVERAL_FORWARDS * steps.count:
        return NOTHING
    # What was named in between is another part of the ledger's.
    rest = max(ledger.total_of(BODY) - float((end - start)[inside].sum()), 0.0)
    backward = trainer.backwards["start_ns"].sort().to_numpy()
    parted = np.searchsorted(backward, start)
    together = inside[1:] & (stretch[1:] == stretch[:-1]) & (parted[1:] == parted[:-1])
    together &= start[1:] > end[:-1]
    from_ns, to_ns = end[:-1][together], start[1:][together]
    between = min(rest, float((to_ns - from_ns).sum()))
    # Stacks alone may count Python code that runs just before, as it holds the GIL; timed calls are those of the whole step.
    timed = ledger.total_of(BACKWARD) * _gradients_by_calls(timeline, trainer)
    gradients = min(between * _gradients_by_stacks(trainer, stacks, from_ns, to_ns), timed)
    whole = float(ledger.ns.sum())
    return BetweenForwards(unknown_share=(between - gradients) / whole, gradients_share=gradients / whole)


def _gradients_by_stacks(trainer: Trainer, stacks: Stacks, from_ns: Ints, to_ns: Ints) -> float:
    """The share of the stacks in these stretches, those in named spans left out, that stands in `torch.autograd.grad`."""
    named = trainer.spans.filter(pl.col("kind") == "span")
    taken = inside(stacks, from_ns, to_ns)
    taken = np.setdiff1d(taken, inside(stacks, *union(named["start_ns"].to_numpy(), named["end_ns"].to_numpy())))
    paths = stacks.paths(taken.tolist())
    whole = sum(weight for weight, _ in paths)
    gradients = sum(weight for weight, path in paths if any(f.function == _GRAD and _AUTOGRAD.search(f.file) for f in path))
    return gradients / whole if whole else 0.0


def _gradients_by_calls(timeline: Timeline, trainer: Trainer) -> float:
    """How many times as long as backward `torch.autograd.grad` took where calls were timed, at whatever pace; 0 where none were."""
    calls = of_bodies(timeline, "calls", trainer.process)
    rows = calls.filter(pl.col("function").is_in((_GRAD, _BACKWARD))).select("function", "file", "total_ns").iter_rows()
    took = {function: float(ns) for function, file, ns in rows if _AUTOGRAD.search(file)}
    return took.get(_GRAD, 0.0) / took[_BACKWARD] if took.get(_BACKWARD) else 0.0
