"""What a loader's producers, the training thread and the kernel counted between two moments."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from slowstep.record.experiment.kernel_counts import bytes_read, bytes_received, connections
from slowstep.record.recorder import now

Slice = dict[str, int | None]

# How often: a look takes a millisecond, most of it for connections.
LOOK_NS: Final = 250_000_000


class Account:
    """Sums of one kind of process: the loader's workers, or (no `pids`) this process where it makes its batches itself.

    `count` gives what the producers have counted of themselves so far. `slices` are what was counted between two looks.
    """

    def __init__(self, pids: Iterable[int], count: Callable[[], Mapping[str, int]]) -> None:
        self._pids = list(pids) or [os.getpid()]
        self._count, self.slices = count, list[Slice]()
        self._before, self._looked_ns = self._snapshot(), now()

    def is_due(self, at_ns: int) -> bool:
        """Whether it is time for the next look."""
        return at_ns - self._looked_ns > LOOK_NS

    def look(self) -> int:
        """End a slice and begin the next; returns the ns that it took, which are in neither."""
        began_ns, after = now(), self._snapshot()
        counted = {name: _difference(after[name], self._before[name]) for name in after}
        self.slices.append(counted | {"period_ns": began_ns - self._looked_ns, "connections": connections(self._pids)})
        self._before, self._looked_ns = self._snapshot(), now()
        return self._looked_ns - began_ns

    def _snapshot(self) -> Slice:
        called, storage = bytes_read(self._pids) or (None, None)
        read = {"read_bytes": called, "storage_bytes": storage, "received_bytes": bytes_received()}
        return {**self._count(), "trainer_cpu_ns": time.thread_time_ns(), **read}


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
