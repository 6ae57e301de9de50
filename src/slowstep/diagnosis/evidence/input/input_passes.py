"""How long a pass over the input is, where passes were seen to begin."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.parts import PartKind


def steps_of_pass(m: Measurements) -> int | None:
    """Steps from the begin of one pass to that of the next, usually; None where no two were seen to begin."""
    begun = np.flatnonzero(m.ledger.of("preprocess", PartKind.LOADER_START))
    return round(float(np.median(np.diff(begun)))) if begun.size > 1 else None
