"""The marks of steps that a trace holds, as one series that does not overlap: a name for each step, begin and end on the host's clock."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

# Whose marks count where there are several kinds: the profiler's own come from the training loop, the others may mark anything.
KINDS: Final = ("ProfilerStep", "step_num", "Profiled batch", "NVTX")


def choose_marks(marks: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Of all marked steps (table `marked_steps`) those of one kind and one thread, in order, none inside another; and what was left out.

    Of several kinds the first of `KINDS` counts, of several threads the one with most steps. A mark around two or more others is no step
    (an epoch); of marks that otherwise overlap the one that began first counts. Marks without length are kept out.
    """
    usable = marks.filter(pl.col("end_ns") > pl.col("start_ns"))
    notes = [_said(len(marks) - len(usable), "without length was left out", "without length were left out")]
    if usable.is_empty():
        return usable, tuple(filter(None, notes))
    rank = pl.col("mark").replace_strict({kind: at for at, kind in enumerate(KINDS)}, default=len(KINDS), return_dtype=pl.Int32)
    groups = usable.with_columns(rank.alias("rank")).group_by("rank", "mark", "thread").agg(pl.len(), pl.col("start_ns").min())
    best = groups.sort(["rank", "len", "start_ns", "thread"], descending=[False, True, False, False]).row(0, named=True)
    of_best = (pl.col("mark") == best["mark"]) & pl.col("thread").eq_missing(pl.lit(best["thread"], dtype=pl.Int32))
    chosen = usable.filter(of_best).sort("start_ns", "end_ns", descending=[False, True])
    kept = chosen.filter(pl.Series(_apart(chosen["start_ns"].to_numpy(), chosen["end_ns"].to_numpy()), dtype=pl.Boolean))
    notes.append(_said(len(usable) - len(chosen), "of another kind or thread was left out", "of other kinds or threads were left out"))
    notes.append(_said(len(chosen) - len(kept), "that overlaps others was left out", "that overlap others were left out"))
    return kept, tuple(filter(None, notes))


def _said(count: int, one: str, several: str) -> str | None:
    return None if count == 0 else f"1 marked step {one}" if count == 1 else f"{count} marked steps {several}"


def _apart(start_ns: np.ndarray, end_ns: np.ndarray) -> list[bool]:
    inside = np.searchsorted(start_ns, end_ns, side="left") - np.arange(len(start_ns)) - 1
    ends_inside = np.searchsorted(np.sort(end_ns), end_ns, side="right") - np.searchsorted(np.sort(end_ns), start_ns, side="right") - 1
    around = (inside >= 2) & (ends_inside >= 2)
    kept, reach = [], -1
    for start, end, outer in zip(start_ns.tolist(), end_ns.tolist(), around.tolist(), strict=True):
        kept.append(not outer and start >= reach)
        reach = end if kept[-1] else reach
    return kept
