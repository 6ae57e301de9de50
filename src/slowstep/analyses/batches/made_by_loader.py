"""What waits for batches take, apart for each loader: workers help where a batch takes long to make, and cost where it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.batches.loader_identity import find_read, identities
from slowstep.analyses.batches.producers import ACCOUNT, COLUMN_OF, WaitParts
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeByLoader:
    """Batches of one loader in the window. `ns`: what making them took per step, without those with which an iterator begins."""

    batches: int
    ns: Floats
    each_ns: float  # mean of those that it counts
    dataset: str | None = None  # the name of its data set


def find_made_by_loader(timeline: Timeline, trainer: Trainer, waits: WaitParts, steps: Steps) -> tuple[MadeByLoader, ...]:
    """One entry for each loader that the training reads; what is made anew for each epoch is one of them."""
    read = find_read(timeline, trainer)
    makes = dict(zip(read["iterator"].to_list(), identities(read), strict=True))
    numbers = {make: number for number, make in enumerate(dict.fromkeys(makes.values()))}
    datasets = {number: None if make[0] is None else str(make[0]) for make, number in numbers.items()}
    asked = trainer.waits.filter(GAVE_BATCH)["iterator"]
    kind = np.array([numbers[makes[iterator]] if iterator in makes else -1 for iterator in asked.to_list()], dtype=np.int64)
    step, inside = steps.step_at(waits.start_ns)
    made = waits.parts[:, [COLUMN_OF[kind] for kind in ACCOUNT]].sum(axis=1)
    found = []
    for number in np.unique(kind[inside & ~waits.first]).tolist():
        own = inside & (kind == number)
        later = own & ~waits.first
        ns = np.bincount(step[later], weights=made[later], minlength=steps.stretches).astype(np.float64)
        each_ns = float(made[later].mean())
        found.append(MadeByLoader(batches=int(own.sum()), ns=ns[~steps.excluded], each_ns=each_ns, dataset=datasets.get(number)))
    return tuple(found)
