"""What a larger batch may gain: the fixed cost of a step is then paid for more samples."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.parts import PartKind

# Beyond so many times the size what was seen is trusted no further.
LARGEST_FACTOR = 8


def usual_step_ns(m: Measurements) -> float:
    """The usual step, ns: the mean step holds stalls too, which are neither fixed nor per sample. All of it, waits and callbacks included:
    a larger batch saves nothing of those. But no waiting for a core, which comes and goes with what else runs.
    """
    return float(np.median(m.step_ns - m.ledger.of("compute", PartKind.CORE_WAIT)))
