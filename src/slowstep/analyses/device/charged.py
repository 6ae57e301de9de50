"""How much of given stretches of host time the device had nothing to do, and which part of the ledger was charged with it."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, SCHEMA
from slowstep.timeline.intervals import Ints, covered_ns

# The columns of tables that tell such a part, in the order of COLUMNS; null where there is none.
CHARGED = ("charged_stage", "charged_kind", "charged_name", "charged_place")


def charged(start_ns: Ints, end_ns: Ints, gaps: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
    """Of each stretch, shape (n,), the time that lies in `gaps` (table GAPS), and the part that most of it was charged to (CHARGED).

    The part is null where none of the stretch lies in a gap.
    """
    best, total = np.zeros(len(start_ns), dtype=np.int64), np.zeros(len(start_ns), dtype=np.int64)
    part = np.full(len(start_ns), -1)
    parts = gaps.select(COLUMNS).unique().sort(COLUMNS)
    numbered = gaps.join(parts.with_row_index("part"), on=COLUMNS, nulls_equal=True)
    for number in range(len(parts)):
        # Pieces of gaps do not overlap, so that in order of start they are in order of end.
        rows = numbered.filter(pl.col("part") == number).sort("start_ns")
        starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        inside = np.rint(covered_ns(starts, ends, end_ns) - covered_ns(starts, ends, start_ns)).astype(np.int64)
        total += inside
        part = np.where(inside > best, number, part)
        best = np.maximum(best, inside)
    none = pl.DataFrame(schema=SCHEMA).clear(1)
    found = pl.concat([parts.cast(SCHEMA), none])[np.where(part < 0, len(parts), part)]
    return total, found.rename(dict(zip(COLUMNS, CHARGED, strict=True)))
