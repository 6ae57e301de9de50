"""Whether workers send their state with the batches, from which a script can go on in the middle of an epoch, and it takes its time."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.measurements import Measurements

# A state that comes more seldom, with one batch in so many, costs less than a tenth of what it does with each.
OFTEN: Final = 10


def sends_state(m: Measurements) -> bool:
    """Whether it takes a worker longer, for each batch, than any batch takes to be received: then it is not the batch that does."""
    loader, demand = m.input.loader, m.input.demand
    if loader is None or not loader.num_workers or loader.snapshot_every is None or loader.snapshot_every > OFTEN:
        return False
    return demand.between_batches_ns >= RECEIVE_NS * demand.batches
