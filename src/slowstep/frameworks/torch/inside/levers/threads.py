"""`torch.set_num_threads`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from slowstep.levers.threads import LEVER, read_threads
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training


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


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises ValueError where the value is no number of threads, NotApplicable where there are as many already."""
    count = read_threads(spec)
    torch: Any = sys.modules["torch"]
    if int(torch.get_num_threads()) == count:
        raise NotApplicable(f"operations use {count} thread{'s' * (count != 1)} already")
    return Threads(torch, count)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
