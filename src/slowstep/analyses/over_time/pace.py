"""How evenly the machine worked: what the training's own work took, from one eighth of the window to the next.

What is beyond chance is told by a test that takes steps to differ independently of each other, but for what each has in common with the one
before it (an AR(1) series): how much that is, is estimated within the eighths. A drift over the run is taken out as a line. What lasts
for longer than a few steps is no chance, but a change of pace: of the machine, or of the training itself, which this does not tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

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
# two where these are as skewed as a lognormal of sigma 1. Of trainings whose neighbouring steps have a correlation of 0.5 it is one of ten
# at most, at 0.8 one of five with less than 200 steps (simulated in tests/property/test_pace_by_chance.py).
BEYOND_CHANCE = 12.592 / FREEDOM
# Correlations of neighbouring steps that are looked among: steps that resemble each other for longer have another pace.
CORRELATIONS = np.linspace(0.0, 0.9, 91)
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
    by_chance = _by_chance(blocks)
    beyond = found - by_chance if found > BEYOND_CHANCE * by_chance else 0.0
    return Pace(spread=math.sqrt(found), beyond_chance=math.sqrt(beyond))


def _by_chance(blocks: Sequence[tuple[Floats, Floats]]) -> float:
    """Variance of the logarithm of a block's sum, from how the steps within blocks differ, and how far each resembles the one before it."""
    about = [took * (len(took) / took.sum()) - usual * (len(took) / usual.sum()) for took, usual in blocks]
    squares, products = (np.array([each[lag:] @ each[: len(each) - lag] for each in about]) for lag in (0, 1))
    if not squares.any():
        return 0.0
    # The mean over blocks: within one, a change of pace looks like a correlation.
    seen = float(np.mean(products / np.where(squares > 0, squares, 1.0)))
    steps = float(np.mean([len(each) for each in about]))
    # One standard error up (of the correlation of so many steps that have none, Bartlett's formula): of a smaller one than there is an even
    # machine would be called uneven.
    inflation = _inflation(_correlation(seen + 1 / math.sqrt(steps * len(blocks)), steps), steps)
    return float(np.mean(squares)) / (steps - inflation) * inflation / steps


def _correlation(seen: float, steps: float) -> float:
    """The correlation of neighbours behind one that is `seen` in blocks of so many steps, whose mean was taken out: it is smaller."""
    inflation = _inflation(CORRELATIONS, steps)
    return float(np.interp(seen, (steps - 1) * (CORRELATIONS - inflation / steps) / (steps - inflation), CORRELATIONS))


@overload
def _inflation(correlation: float, steps: float) -> float: ...
@overload
def _inflation(correlation: Floats, steps: float) -> Floats: ...
def _inflation(correlation: float | Floats, steps: float) -> float | Floats:
    """How many times larger the variance of the mean of so many steps is than if they were independent, of an AR(1) series."""
    apart = 1 - correlation
    return (1 + correlation) / apart - 2 * correlation * (1 - correlation**steps) / (steps * apart**2)


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
