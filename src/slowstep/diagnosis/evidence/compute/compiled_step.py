"""Whether one operation of a step that is compiled as a whole may take most of it.

Nothing sees that run, but what the step was traced to tells its shapes.
"""

from __future__ import annotations

from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.compute.one_call import MOST_OF_STEP

# A layer multiplies forward, for the gradient of its weights and for that of its input: as much each time (Kaplan et al. 2020, "Scaling
# laws for neural language models", section 2.1). It holds at most three of the operation that multiplies most.
TIMES_OF_LAYER: Final = 3


def is_spread(m: Measurements) -> bool:
    """Whether no layer holds half of what the step multiplies, and no other operation can take half of its time."""
    calls = m.trainer.facts.call_operations
    if calls is None or calls.work is None:
        return False
    work, most_ns = calls.work, MOST_OF_STEP * float(m.step_ns.mean())
    others = (
        (work.sorted, computing.SORTED_ELEMENT),
        (work.scattered, computing.SCATTERED_ELEMENT),
        (work.given, computing.FUSED_ELEMENT),
    )
    if any(elements * cost.bounds[1] >= most_ns for elements, cost in others):
        return False
    return TIMES_OF_LAYER * work.most_products < MOST_OF_STEP * work.products
