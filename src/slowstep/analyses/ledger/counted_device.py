"""Moves what a framework's own threads did, as it counts it, to where it belongs: waiting for input out of its calls; and where its calls
return at once, host time under their work out of every stage but compute.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.batches.counted import CountedWork
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.parts import Part, PartKind

COUNTED_WAIT = Part("preprocess", PartKind.INPUT_WAIT)
UPDATES = Part("compute", PartKind.UPDATES)


def move_counted(counted: CountedWork, steps: Steps, rows: dict[Part, Floats]) -> None:
    """Charge each step by what was counted; rows still sum to its length."""
    whole = np.diff(steps.edges_ns).astype(np.float64)
    updates = np.zeros_like(whole)
    for part in [part for part in rows if part.stage == "compute"]:
        updates += rows.pop(part)
    if counted.is_asynchronous:
        beside = np.sum([np.zeros_like(whole), *rows.values()], axis=0)
        share = np.divide(_exposed(counted, whole, beside), beside, out=np.zeros_like(whole), where=beside > 0)
        for part, ns in rows.items():
            rows[part] = ns * share
        updates += beside * (1 - share)
    waited = np.minimum(counted.waited_ns, updates)
    rows[UPDATES], rows[COUNTED_WAIT] = updates - waited, waited


def _exposed(counted: CountedWork, whole: Floats, beside: Floats) -> Floats:
    """Of the host's time beside its calls, what the device was idle meanwhile: no longer than it neither computed nor waited for input.

    What is in a step is estimated, and what is in all of them is not: there estimates may not add up to more.
    """
    idle = whole - counted.busy_ns - counted.waited_ns
    exposed = np.minimum(np.maximum(idle, 0.0), beside)
    return np.asarray(exposed * min(max(float(idle.sum()), 0.0) / max(float(exposed.sum()), 1.0), 1.0))
