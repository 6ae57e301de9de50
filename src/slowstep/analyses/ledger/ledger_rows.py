"""The topic `ledger_rows`: the ledger as a table, a row per step and part."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.events.parts import is_part
from slowstep.parts import Part


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerRows:
    """The account of a profiler's steps (`LEDGER`), which are `length_ns` long together."""

    table: pl.DataFrame
    length_ns: int

    def share(self, stage: str) -> float:
        """Share of the window charged to a stage."""
        return self._charged(pl.col("stage") == stage)

    def share_of(self, *parts: Part) -> float:
        """Share of the window charged to some parts together."""
        return self._charged(is_part(*parts))

    def _charged(self, rows: pl.Expr) -> float:
        return float(self.table.filter(rows)["ns"].sum()) / max(self.length_ns, 1)
