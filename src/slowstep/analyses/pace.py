"""How evenly the machine worked: what the training's own work took, from one eighth of the window to the next."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.ledger import CORE, Ledger
from slowstep.analyses.steps import Floats

# The training's own work must hold this share of the window for the machine's pace to be seen in it.
SMALLEST_PACE = 0.05
BLOCKS = 8
# The steps of a block differ among themselves: fewer than these would be no mean.
STEPS_PER_BLOCK = 5


def own_work(ledger: Ledger) -> Floats | None:
    """Ns per step of the training's own work, without waiting for a core; None where it is too little to tell the pace by."""
    parts = [(stage, name) for stage, name in ledger.parts if stage == "compute" and name != CORE]
    work = sum((ledger.of(*part) for part in parts), np.zeros(ledger.ns.shape[1]))
    return None if work.sum() < SMALLEST_PACE * ledger.ns.sum() else work


def find_pace_spread(ledger: Ledger) -> float:
    """Standard deviation of that work's logarithm between eighths of the window, about a line: what grows steadily is no change of pace.

    0 where there are too few steps, or too little such work.
    """
    work = own_work(ledger)
    if work is None or len(work) < BLOCKS * STEPS_PER_BLOCK:
        return 0.0
    means = np.array([block.mean() for block in np.array_split(work, BLOCKS)])
    if means.min() <= 0:
        return 0.0
    levels = np.log(means)
    at = np.arange(BLOCKS)
    residual = levels - np.polynomial.Polynomial.fit(at, levels, 1)(at)
    return float(np.sqrt((residual**2).sum() / (BLOCKS - 2)))
