"""How large the inputs of each step were: longer sequences, larger pictures, more samples are more work on any machine."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.batches.producers import Fetches, WaitParts
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints


def find_step_bytes(trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts) -> Floats:
    """Bytes of each step's batches as they were collated, else of what its forwards were given; NaN where unknown. Shape (steps,)."""
    made = _of_batches(trainer, steps, fetches, waits)
    if np.isfinite(made).any():
        return made
    forwards = trainer.training_forwards
    # Recordings of before say 0 of a forward.
    sizes = forwards["bytes"].fill_null(0).to_numpy().astype(np.float64)
    return _per_step(steps, forwards["start_ns"].to_numpy(), np.where(sizes > 0, sizes, np.nan))


def _of_batches(trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts) -> Floats:
    if not len(fetches.start_ns):
        return np.full(steps.count, np.nan)
    # A wait of a serial loader without a recorded fetch of its own was matched to the one before.
    other = (fetches.process[waits.fetch] == trainer.process) & (fetches.end_ns[waits.fetch] <= waits.start_ns)
    return _per_step(steps, waits.start_ns, np.where(waits.matched & ~other, fetches.batch_bytes[waits.fetch], np.nan))


def _per_step(steps: Steps, start_ns: Ints, sizes: Floats) -> Floats:
    """The sum in each step; NaN where one is unknown, or there is none."""
    stretch, inside = steps.stretch_at(start_ns)
    total = np.bincount(stretch[inside], weights=sizes[inside], minlength=steps.stretches).astype(np.float64)
    return np.where(total > 0, total, np.nan)[~steps.excluded]
