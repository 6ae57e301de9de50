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


def gains_at_most(m: Measurements) -> float:
    """The factor of throughput with the largest batch, where all is fixed that may be; where nothing bounds that, all of the step."""
    high, step = m.compute.fixed_cost.high_ns, usual_step_ns(m)
    share = 1.0 if high is None or step <= 0 else min(high / step, 1.0)
    return 1 / (1 - share + share / LARGEST_FACTOR)
