"""What lies between the forwards of one step, which nothing names."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.ledger import FORWARD, Ledger
from slowstep.analyses.steps import Steps
from slowstep.analyses.trainer import Trainer

# Forwards per step from which on what lies between them may be anything: a student and its teacher make two.
SEVERAL_FORWARDS = 3


def between_forwards_share(trainer: Trainer, steps: Steps, ledger: Ledger) -> float:
    """Share of the steps' time that lies between forwards that no backward parts: a roll-out's environment, for instance.

    0 where requests for input or a single forward show where the input ends, and where forwards are not recorded. Forwards inside the
    optimizer's call are its closure's (LBFGS): what lies between them is the optimizer's own work. What comes before a backward or after
    it is the loss, or the next network's turn.
    """
    forwards = trainer.training_forwards
    start, end = forwards["start_ns"].to_numpy(), forwards["end_ns"].to_numpy()
    update = np.searchsorted(trainer.update_start_ns, start, side="right") - 1
    outside = (update < 0) | (end > trainer.update_end_ns[update])
    start, end = start[outside], end[outside]
    stretch = np.searchsorted(steps.edges_ns, start, side="right") - 1
    inside = (stretch >= 0) & (stretch < steps.stretches) & ~steps.excluded[np.clip(stretch, 0, steps.stretches - 1)]
    if trainer.is_fed or inside.sum() < SEVERAL_FORWARDS * steps.count:
        return 0.0
    # What was named in between is another part of the ledger's.
    rest = max(ledger.total("compute", FORWARD) - float((end - start)[inside].sum()), 0.0)
    backward = trainer.spans.filter(pl.col("kind") == "backward")["start_ns"].sort().to_numpy()
    parted = np.searchsorted(backward, start)
    together = inside[1:] & (stretch[1:] == stretch[:-1]) & (parted[1:] == parted[:-1])
    between = float((start[1:] - end[:-1])[together].clip(min=0).sum())
    return min(rest, between) / float(ledger.ns.sum())
