"""How much of a step's length its number of forwards explains: episodes of unequal length, the calls of a line search.

Such steps are long because there is more to do in them. What grows or varies beside that is what the analyses of time look for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer

# A line is laid through the medians of so many groups of steps, by their number of forwards, each of at least so many steps: as many as the
# blocks by which pace.py looks at the same time.
GROUPS = 8
STEPS_PER_GROUP = 5
# Where all but so many percent of the steps on each side (p05 and p95, as reports show of steps) have the same number, an end of an epoch
# or a validation made the others.
OUTERMOST = 5


def at_usual_counts(ledger: Ledger, trainer: Trainer, steps: Steps) -> Ledger:
    """What each step's parts would take with the usual number of forwards; the ledger itself where nearly all have the same."""
    counts = _counts(trainer, steps)
    return ledger if counts is None else replace(ledger, ns=np.vstack([_at_usual(ns, counts) for ns in ledger.ns]))


def _counts(trainer: Trainer, steps: Steps) -> Floats | None:
    """The forwards with gradients of each step."""
    stretch, inside = steps.stretch_at(trainer.training_forwards["start_ns"].to_numpy())
    counts = np.bincount(stretch[inside], minlength=steps.stretches)[~steps.excluded].astype(np.float64)
    if len(counts) < GROUPS * STEPS_PER_GROUP:
        return None
    low, high = np.percentile(counts, [OUTERMOST, 100 - OUTERMOST])
    return counts if 0 < low < high else None


def _at_usual(ns: Floats, counts: Floats) -> Floats:
    """By a line through the steps, of which neither the part that every forward takes nor the rest is less than nothing."""
    groups = np.array_split(np.argsort(counts, kind="stable"), GROUPS)
    at = np.array([np.median(counts[group]) for group in groups], dtype=np.float64)
    levels = np.array([np.median(ns[group]) for group in groups], dtype=np.float64)
    apart = at - at.mean()
    each = float((apart * levels).sum() / max((apart**2).sum(), 1.0))
    if each <= 0:
        return ns
    fixed = max(float(levels.mean()) - each * float(at.mean()), 0.0)
    return ns * (fixed + each * float(np.median(counts))) / (fixed + each * np.maximum(counts, 1.0))
