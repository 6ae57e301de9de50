"""The topic `replay`: steps replayed with one thing changed."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.replay.recording_cost import LESS_MOST_COST, LESS_USUAL_COST
from slowstep.analyses.replay.scenarios import UNCHANGED


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayTopic:
    """The replayed steps, a row for each with each change (`REPLAY`)."""

    table: pl.DataFrame

    @property
    def profiler_share(self) -> tuple[float, float] | None:
        """What the profiler took of the host's time in the replayed steps: usual and highest share; None where too little, or unknown."""
        rows = self.table.filter(pl.col("scenario") == UNCHANGED).group_by("recording").agg(pl.col("taken_ns", "observed_ns").sum())
        shares = {row["recording"]: row["taken_ns"] / max(row["observed_ns"], 1) for row in rows.iter_rows(named=True)}
        return (shares[LESS_USUAL_COST], shares[LESS_MOST_COST]) if LESS_USUAL_COST in shares else None
