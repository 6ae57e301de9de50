"""What the rules about a trace without a device have in common: one thread does all, so that what goes from it makes the step shorter."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.steps import Floats
from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.diagnosis.gain import NOTHING_NS, RUN_TO_RUN
from slowstep.findings import Gain


def shortened(m: TraceMeasurements, removed_ns: Floats, assumes: str) -> Gain:
    """The gain of taking so much from each step, shape (steps,), that the training thread does alone.

    Low and high are those of the steps with least and most of it, and what two runs of one training differ by. Nothing is known of a step
    that nothing would be left of: then there is no high.
    """
    before = np.asarray(m.step_ns, dtype=np.float64)
    after = np.maximum(before - removed_ns, NOTHING_NS)
    if not before.sum() or not (after > NOTHING_NS).any():
        return Gain(predicted=None, low=None, high=None, assumes=assumes)
    predicted, each = float(before.sum() / after.sum()), before / after
    low, high = float(each.min()) * (1 - RUN_TO_RUN), float(each.max()) * (1 + RUN_TO_RUN)
    is_open = not (after > NOTHING_NS).all()
    return Gain(predicted=predicted, low=min(low, predicted), high=None if is_open else max(high, predicted), assumes=assumes)
