"""Another number of threads for torch's operations on the processor.

What it changes:
    `torch.set_num_threads(N)` on the training thread while it is on: how many cores one operation is divided among. The threads that run
    several operations at once (interop) stay as they are, and so do the loader's workers, which torch gives one thread each.
What it answers:
    Whether the training computes faster with more threads, or with fewer: threads that wait for each other, or for cores that workers and
    other jobs use, cost more than they do. It changes how much of the machine the job asks for, so only the time by the clock counts.
When it has no meaning:
    The training uses N threads already, or torch was built without threads. Where the parameters are on an accelerator it is tried, but
    operations on the processor take next to nothing there. Sums are added up in another order: the last bits of the results may differ.
How it is undone:
    The number that was set before is set again, exactly. What stays is unused: OpenMP keeps the threads that it has started, asleep, until
    the process ends, and MKL no longer chooses fewer threads by itself (torch turns that off at any call of `set_num_threads`).
"""

from __future__ import annotations

from typing import Final

from slowstep.record.experiment.lever import DEMAND, Lever, LeverSpec, OnLongSteps

# A number above this is a typo: no machine has so many cores.
_MOST: Final = 4096


def read_threads(spec: LeverSpec) -> int:
    """The N. Raises ValueError where it is no number of threads."""
    value = spec.value or ""
    if not value.isdecimal() or not 1 <= int(value) <= _MOST:
        raise ValueError("give a number of threads, such as threads=4")
    return int(value)


LEVER = Lever(name="threads", takes="N", changes=frozenset({DEMAND}), long_steps=OnLongSteps.PERHAPS, same_numbers=False, read=read_threads)
