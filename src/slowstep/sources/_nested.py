"""Makes the stretches of host threads nest, by leaving out those that do not."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.health import Health
from slowstep.timeline.nesting import crossing


def nested(events: pl.DataFrame, may_go: tuple[pl.Expr, ...]) -> tuple[pl.DataFrame, list[Health]]:
    """The host events without those that cross others of their thread: those that meet the first condition go first, and so on."""
    before = len(events)
    for condition in may_go:
        crosses = crossing(*(events[name].to_numpy() for name in ("thread", "start_ns", "end_ns")))
        if not np.any(crosses):
            break
        events = events.filter(~(pl.Series(crosses) & condition))
    if len(events) == before:
        return events, []
    remedy = "these ranges begin inside another one of their thread and end outside, so no time can be charged to them; they are left out"
    return events, [Health(name="crossing-ranges", severity="info", count=before - len(events), remedy=remedy)]
