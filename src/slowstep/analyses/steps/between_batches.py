"""What steps of several batches hold between them: from the backward of one to the receipt of the next, in which nothing is updated.

A body whose calls are timed goes from the first batch to the update, and holds all of it; for the ledger it is gaps and waits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class BetweenBatches:
    """Ns per step, up to the requests for batches and from there to their receipts."""

    gaps_ns: Floats
    waits_ns: Floats


def find_between_batches(trainer: Trainer, bodies: tuple[Ints, Ints], steps: Steps) -> BetweenBatches | None:
    """None where no step has several batches. `bodies` are the pieces of the steps' own work, in order."""
    start, end = bodies
    updates = trainer.update_end_ns
    is_interrupted = np.searchsorted(updates, start, side="right") == np.searchsorted(updates, end, side="right")
    at = np.flatnonzero(is_interrupted[:-1])
    if not trainer.is_fed or not len(at):
        return None
    done, request = end[at], start[at + 1]
    waits = trainer.waits.sort("start_ns")
    asked = np.minimum(np.searchsorted(waits["start_ns"].to_numpy(), request), waits.height - 1)
    receipt = np.maximum(waits["end_ns"].to_numpy()[asked], request)
    step = np.searchsorted(steps.edges_ns, done, side="right") - 1
    inside = (step >= 0) & (step < steps.stretches)

    def per_step(begin: Ints, until: Ints) -> Floats:
        ns = np.bincount(step[inside], weights=(until - begin)[inside].astype(np.float64), minlength=steps.stretches)
        return ns.astype(np.float64)[~steps.excluded]

    return BetweenBatches(gaps_ns=per_step(done, request), waits_ns=per_step(request, receipt))
