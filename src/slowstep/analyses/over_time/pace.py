"""How evenly the machine worked: what the training's own work took, from one eighth of the window to the next."""

from __future__ import annotations

import math

import numpy as np

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.machine.machine_topic import Pace
from slowstep.analyses.steps.steps import Floats
from slowstep.parts import PartKind

# The training's own work must hold this share of the window for the machine's pace to be seen in it.
SMALLEST_PACE = 0.05
BLOCKS = 8
# The steps of a block differ among themselves: fewer than these would be no mean.
STEPS_PER_BLOCK = 5
# Of so many steps the inputs' size must be known; the others (of the recording's edges) are taken to be of the median size.
KNOWN_AT_LEAST = 0.9
# A line is taken from the blocks' levels.
FREEDOM = BLOCKS - 2
# The 95th percentile of chi squared with that freedom, by it: of 20 trainings with independent steps one differs by more between blocks,
# two where these are as skewed as a lognormal of sigma 1.
BEYOND_CHANCE = 12.592 / FREEDOM
EVEN = Pace(spread=0.0, beyond_chance=0.0)


def work_of_model(ledger: Ledger) -> Floats | None:
    """Ns per step of the training's own work, without waiting for a core; None where it is too little to tell the pace by."""
    work = ledger.of_parts(*(part for part in ledger.parts if part.stage == "compute" and part.kind is not PartKind.CORE_WAIT))
    return None if work.sum() < SMALLEST_PACE * ledger.ns.sum() else work


def find_machine_pace(ledger: Ledger, step_bytes: Floats | None = None) -> Pace:
    """The spread of that work's logarithm between eighths of the window, about a line: what grows steadily is no change of pace.

    Nor is what the sizes of the steps' inputs explain. Even where there are too few steps, or too little such work.
    """
    work = work_of_model(ledger)
    if work is None or len(work) < BLOCKS * STEPS_PER_BLOCK:
        return EVEN
    expected = _by_size(work, step_bytes)
    blocks = list(zip(np.array_split(work, BLOCKS), np.array_split(expected, BLOCKS), strict=True))
    if min(min(took.sum(), usual.sum()) for took, usual in blocks) <= 0:
        return EVEN
    levels = np.log([took.sum() / usual.sum() for took, usual in blocks])
    at = np.arange(BLOCKS)
    residual = levels - np.polynomial.Polynomial.fit(at, levels, 1)(at)
    found = float((residual**2).sum() / FREEDOM)
    by_chance = float(np.mean([_by_chance(took, usual) for took, usual in blocks]))
    beyond = found - by_chance if found > BEYOND_CHANCE * by_chance else 0.0
    return Pace(spread=math.sqrt(found), beyond_chance=math.sqrt(beyond))


def _by_chance(took: Floats, usual: Floats) -> float:
    """Variance of the logarithm of a block's sum where its steps are independent, from how they differ within the block."""
    n, total = len(took), float(took.sum())
    about = took - usual * (total / usual.sum())
    return float((about**2).sum()) * n / (n - 1) / total**2


def _by_size(work: Floats, step_bytes: Floats | None) -> Floats:
    """What each step usually takes by the size of its inputs: a fixed cost, and what grows as they do, or as their square (attention).

    The same for all steps where sizes are not known, or are the same.
    """
    known = np.isfinite(step_bytes) & (work > 0) if step_bytes is not None else np.zeros(len(work), dtype=bool)
    if step_bytes is None or known.mean() < KNOWN_AT_LEAST or np.ptp(step_bytes[known]) == 0:
        return np.ones_like(work)
    size = step_bytes / step_bytes[known].max()
    # Relative errors count: the long steps would decide alone otherwise.
    terms = np.vander(size[known], 3) / work[known][:, None]
    factors = np.linalg.lstsq(terms, np.ones(int(known.sum())), rcond=None)[0]
    expected = np.vander(np.where(known, size, np.median(size[known])), 3) @ factors
    # A curve that comes to nothing within the sizes that were seen is none.
    return np.asarray(expected) if expected.min() > 0 else np.ones_like(work)
