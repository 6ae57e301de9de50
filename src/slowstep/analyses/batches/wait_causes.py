"""Why the training waited for its input: where each wait of a recording is divided, from the first step to the last.

1. Who made the batch that a wait was for, and what making it took: `find_fetches` (a worker, or the training thread, `made_here.py`).
2. How that lies in the wait: `divide_waits`, with a column for each cause (`COLUMN_OF`), and the stage of each (`PART_STAGE`).
3. What of the rest was drawing the indices of samples, by stacks: `divide_sampler_time`.
4. What of a transport from a worker was a wait for a busy one, by its clock: `with_held_transfers`.

The ledger takes the parts over (`_charge_waits` in `ledger/charged_spans.py`). What no wait tells of is divided there: batches that a
loop makes itself, between calls (`delays.py`), and input that a compiled call waited for and only counted (`recording_ledger.py`,
`counted_device.py`).
"""

from __future__ import annotations

from slowstep.analyses.batches.producers import Fetches, WaitParts, divide_waits
from slowstep.analyses.batches.sampler import SamplerTime, divide_sampler_time
from slowstep.analyses.batches.transfer import with_held_transfers
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline


def divide_waits_by_cause(timeline: Timeline, trainer: Trainer, fetches: Fetches, stacks: Stacks) -> tuple[WaitParts, SamplerTime | None]:
    """The waits for input, each in its causes, and what draws samples where that takes any time."""
    waits, sampler_time = divide_sampler_time(timeline, trainer.process, divide_waits(timeline, trainer, fetches), stacks)
    return with_held_transfers(timeline, trainer.process, fetches, waits), sampler_time
