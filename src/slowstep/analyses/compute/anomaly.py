"""What anomaly detection takes of the training thread's time: it writes down the stack of every operation, and checks every gradient.

It writes stacks by Python's `traceback`, in which the stacks of a recording then stand. Checking leaves no trace in them: of that, how many
gradients there are is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.compute.graphs import Graphs, find_graphs
from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.python.functions import FEWEST_TO_DIVIDE, Stacks, inside
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class AnomalyCost:
    """Share of the training thread's stacks that write stacks down, with its 90 % interval; operations whose gradients are checked in a
    step, and elements of these gradients: None where they were not counted.
    """

    writing: float
    low: float
    high: float
    operations: float | None
    elements: float | None


def find_anomaly_cost(timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks) -> AnomalyCost | None:
    """By the stacks of the window; None where they are too few to divide it."""
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    if len(taken) < FEWEST_TO_DIVIDE:
        return None
    pattern = code(Code.WRITES_STACKS)
    numbers, at = np.unique(stacks.stack[taken], return_inverse=True)
    writes = np.array([any(pattern.search(frame.file) for frame in stacks.frames.get(int(number), ())) for number in numbers])
    weights, hits = stacks.weight_ns[taken], writes[at]
    low, high = share_bounds(int(hits.sum()), len(taken))
    nodes, passes = trainer.facts.graph_nodes, max(trainer.backwards_per_step, 1.0)
    elements = _elements(find_graphs(timeline, trainer, steps))
    return AnomalyCost(
        writing=float(weights[hits].sum() / weights.sum()) if weights.sum() else 0.0,
        low=low,
        high=high,
        operations=None if nodes is None else nodes * passes,
        elements=None if elements is None else elements * passes,
    )


def _elements(graphs: Graphs) -> float | None:
    """Of all that the operations of the usual pass gave, and of the parameters that get a gradient."""
    each = graphs.values + graphs.parameters
    known = each[~np.isnan(each)]
    return float(np.median(known)) if len(known) else None
