"""What lies between the forwards of one step, which nothing names."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.ledger import FORWARD, Ledger
from slowstep.analyses.steps import Steps
from slowstep.analyses.trainer import Trainer

# Forwards per step from which on what lies between them may be anything: a student and its teacher make two.
SEVERAL_FORWARDS = 3


def between_forwards_share(trainer: Trainer, steps: Steps, ledger: Ledger) -> float:
    """Share of the steps' time that lies in bodies with several forwards, outside of them: a roll-out's environment, for instance.

    0 where a loader or a single forward shows where the input ends, and where forwards are not recorded. Forwards inside the optimizer's
    call are its closure's (LBFGS): what lies between them is the optimizer's own work.
    """
    forwards = trainer.training_forwards
    start, end = forwards["start_ns"].to_numpy(), forwards["end_ns"].to_numpy()
    update = np.searchsorted(trainer.update_start_ns, start, side="right") - 1
    outside = (update < 0) | (end > trainer.update_end_ns[update])
    start, end = start[outside], end[outside]
    stretch = np.searchsorted(steps.edges_ns, start, side="right") - 1
    inside = (stretch >= 0) & (stretch < steps.stretches) & ~steps.excluded[np.clip(stretch, 0, steps.stretches - 1)]
    if len(trainer.waits) or inside.sum() < SEVERAL_FORWARDS * steps.count:
        return 0.0
    rest = ledger.total("compute", FORWARD) - float((end - start)[inside].sum())
    return max(rest, 0.0) / float(ledger.ns.sum())
