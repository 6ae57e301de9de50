"""What it gains if the loader's workers do what the training thread does to each batch that it has received."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.by_workers import gain_by_workers, made_by_workers
from slowstep.diagnosis.evidence.input.input_side import crowded, side_of_body, workers_needed
from slowstep.diagnosis.evidence.spread import EXACT, TimeSpread
from slowstep.diagnosis.gain import Counterfactual, unknown_gain
from slowstep.findings import Gain
from slowstep.reasons import Reason

UNKNOWN = "the loader's workers did it"


def gain_in_workers(m: Measurements, held: Floats, spread: TimeSpread = EXACT) -> tuple[Gain, Counterfactual | None]:
    """The gain if they did what takes so long in each step, ns, known to `spread`; and what it rests on, None where it is not known."""
    share = float(held.sum() / m.step_ns.sum())
    side = side_of_body(m, held)
    if isinstance(side, Reason):
        return unknown_gain(UNKNOWN, because=side, share=share), None
    loader = m.input.loader
    now = 0 if loader is None else loader.num_workers
    workers = max(workers_needed(side, max(now - 1, 0)), now)
    # Batches come from workers already where there are any.
    counterfactual = made_by_workers(side, workers, spread, receipts=0.0 if now else 1.0)
    taken = crowded(m, side)
    gain = gain_by_workers(m, counterfactual, taken)
    if gain is None or gain.predicted is None:
        return unknown_gain(taken or UNKNOWN, share=share), None
    return gain, counterfactual
