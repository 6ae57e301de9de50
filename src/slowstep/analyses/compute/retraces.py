"""For what functions were traced again: which argument changed, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.record.writing import format as fmt
from slowstep.timeline.timeline import Timeline


class ChangeKind(StrEnum):
    """What of an argument changed."""

    SHAPE = fmt.CHANGED_SHAPE
    DTYPE = fmt.CHANGED_DTYPE
    VALUE = fmt.CHANGED_VALUE
    OBJECT = fmt.CHANGED_OBJECT
    STRUCTURE = fmt.CHANGED_STRUCTURE
    FUNCTION = fmt.CHANGED_FUNCTION


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrace:
    """One change of an argument, as it is written before and after it."""

    function: str
    argument: str  # empty where the function itself was made anew
    change: ChangeKind
    before: str
    after: str


def find_retraces(timeline: Timeline, trainer: Trainer, steps: Steps) -> tuple[Retrace, ...]:
    """Those of the window, in their order; all where none was noted in it: of a function that is often traced few are."""
    begin_ns, end_ns = steps.bounds_ns
    # What newer recordings say beyond these is passed over.
    is_known = (pl.col("process") == trainer.process) & pl.col("change").is_in([each.value for each in ChangeKind])
    noted = timeline.table("retraces").filter(is_known).sort("time_ns", maintain_order=True)
    inside = noted.filter(pl.col("time_ns").is_between(begin_ns, end_ns))
    rows = (noted if inside.is_empty() else inside).select("function", "argument", "change", "before", "after")
    return tuple(Retrace(**{**row, "change": ChangeKind(row["change"])}) for row in rows.iter_rows(named=True))
