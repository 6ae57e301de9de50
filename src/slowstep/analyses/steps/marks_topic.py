"""The topic `marks`: by what a profiler's steps are known, and which of them are looked at."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.events.tables import WINDOW
from slowstep.faults import MayLack
from slowstep.reasons import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class MarksTopic(MayLack):
    """The steps of the window, a row each (`STEPS`)."""

    table: pl.DataFrame
    whole_steps: int  # that there are, looked at or not
    notes: tuple[Reason, ...] = ()  # what the reader must see, e.g. how the steps were made out

    @property
    def is_chosen(self) -> bool:
        """Whether the user chose one step of several, so that nothing here is of the others."""
        return self.whole_steps > self.table.height

    @property
    def is_window(self) -> bool:
        """Whether no steps are marked, and all that was recorded is taken as one."""
        return self.table.height > 0 and self.table["mark"][0] == WINDOW
