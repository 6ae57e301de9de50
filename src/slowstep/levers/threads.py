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

import sys
from collections.abc import Mapping
from typing import Any, Final

from slowstep.record.experiment.lever import DEMAND, Change, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

# A number above this is a typo: no machine has so many cores.
_MOST: Final = 4096


class Threads(Change):
    """Sets the number of threads; `effect` counts the steps at whose end it still held."""

    def __init__(self, torch: Any, count: int) -> None:
        self._torch, self._count = torch, count
        self._before = int(torch.get_num_threads())

    def on(self) -> None:
        """Set N, and remember what was set. Raises NotApplicable where that has no effect."""
        self._before = int(self._torch.get_num_threads())
        self._torch.set_num_threads(self._count)
        if (held := int(self._torch.get_num_threads())) != self._count:
            raise NotApplicable(f"this torch keeps {held} thread{'s' * (held != 1)} whatever is asked for")

    def off(self) -> None:
        """Set what was set before."""
        self._torch.set_num_threads(self._before)

    def each_step(self) -> None:
        """See whether the script has set another number meanwhile."""
        self.effect += int(self._torch.get_num_threads()) == self._count

    def facts(self) -> Mapping[str, Any]:
        """How many threads there were, and how many there are with the lever."""
        return {"threads_before": self._before, "threads": self._count}


def _read(spec: LeverSpec) -> int:
    value = spec.value or ""
    if not value.isdecimal() or not 1 <= int(value) <= _MOST:
        raise ValueError("give a number of threads, such as threads=4")
    return int(value)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises ValueError where the value is no number of threads, NotApplicable where there are as many already."""
    count = _read(spec)
    torch: Any = sys.modules["torch"]
    if int(torch.get_num_threads()) == count:
        raise NotApplicable(f"operations use {count} thread{'s' * (count != 1)} already")
    return Threads(torch, count)


LEVER = Lever(name="threads", takes="N", changes=frozenset({DEMAND}), long_steps="perhaps", prepare=prepare, read=_read)
