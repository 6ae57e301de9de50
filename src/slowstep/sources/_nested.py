"""Makes the stretches of host threads nest, by leaving out those that do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from slowstep.health import Health, HealthKind
from slowstep.timeline.intervals import Flags, Ints
from slowstep.timeline.nesting import crossing

CROSSING_RANGES: Final = HealthKind(
    "crossing-ranges",
    "info",
    "these ranges begin inside another one of their thread and end outside, so no time can be charged to them; they are left out",
)


def nested(thread: Ints, start_ns: Ints, end_ns: Ints, may_go: Iterable[Flags]) -> tuple[Flags | None, list[Health]]:
    """Which stretches stay, so that none crosses another of its thread: those of the first flags in `may_go` go first, and so on.

    All arrays have shape (n,); None where all stay. `may_go` is asked for no more than is needed.
    """
    kept: Flags | None = None
    flags = iter(may_go)
    while True:
        rows = slice(None) if kept is None else np.flatnonzero(kept)
        crosses = crossing(thread[rows], start_ns[rows], end_ns[rows])
        condition = next(flags, None) if crosses.any() else None
        if condition is None:
            break
        kept = np.ones(len(thread), dtype=np.bool_) if kept is None else kept
        kept[rows] &= ~(crosses & condition[rows])
    lost = 0 if kept is None else len(kept) - int(kept.sum())
    if kept is None or not lost:
        return None, []
    return kept, [CROSSING_RANGES(lost)]
