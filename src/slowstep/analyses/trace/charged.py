"""How much of given stretches of host time the device had nothing to do, and which part of the ledger was charged with it."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.timeline.intervals import Ints, covered_ns


def charged(start_ns: Ints, end_ns: Ints, gaps: pl.DataFrame) -> tuple[Ints, pl.Series]:
    """Of each stretch, shape (n,), the time that lies in `gaps` (table GAPS), and the part that most of it was charged to.

    The part is null where none of the stretch lies in a gap.
    """
    best, total = np.zeros(len(start_ns), dtype=np.int64), np.zeros(len(start_ns), dtype=np.int64)
    part = np.full(len(start_ns), -1)
    names = gaps["part"].unique().sort()
    for number, name in enumerate(names):
        # Pieces of gaps do not overlap, so that in order of start they are in order of end.
        rows = gaps.filter(pl.col("part") == name).sort("start_ns")
        starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        inside = np.rint(covered_ns(starts, ends, end_ns) - covered_ns(starts, ends, start_ns)).astype(np.int64)
        total += inside
        part = np.where(inside > best, number, part)
        best = np.maximum(best, inside)
    chosen = pl.Series(part, dtype=pl.Int64)
    return total, names.gather(chosen.set(chosen < 0, None)).alias("part") if len(names) else _none(len(start_ns))


def _none(rows: int) -> pl.Series:
    return pl.Series("part", [None] * rows, dtype=pl.String)
