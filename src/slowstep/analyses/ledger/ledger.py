"""The ledger: every instant of the window belongs to one part of one stage. What it is, of a recording as of a trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, rows_of
from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.analyses.steps.between_batches import BetweenBatches
from slowstep.analyses.steps.steps import Floats
from slowstep.parts import Part, PartKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Row meaning: one row per part; `ns` has a column per step of the window. All rows and columns sum to the steps' time exactly.

    Where it is not known what an instant belongs to, `ns` of parts is what surely is theirs, and the rest that of the part `UNKNOWN`.
    """

    parts: tuple[Part, ...]
    ns: Floats
    gap_stacks: dict[Part, int] = field(default_factory=dict)  # parts that stacks named, and by how many
    timed: dict[Part, int] = field(default_factory=dict)  # parts that timed calls named, and in how many gaps
    written_within: dict[Part, float] = field(default_factory=dict)  # of the writing of checkpoints, within functions that are for it
    in_bodies_ns: Floats | None = None  # per step: named parts inside the steps' bodies, which are none of BODY; None: there are none
    between: BetweenBatches | None = None  # of steps of several batches
    by_operation: ByOperation | None = None  # of a device that works while the host goes on
    low: Floats | None = None  # the least that each part took, as `ns`; None where all is known
    high: Floats | None = None  # and the most
    _rows_ns: tuple[float, ...] = field(init=False, repr=False)  # per part: asked for hundreds of times, of up to millions of steps
    _row_of: dict[Part, int] = field(init=False, repr=False)  # of each part, of which there may be thousands

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows_ns", tuple(self.ns.sum(axis=1).tolist()))
        object.__setattr__(self, "_row_of", {part: row for row, part in enumerate(self.parts)})

    @property
    def steps(self) -> int:
        """How many steps it is of."""
        return int(self.ns.shape[1])

    def of(self, stage: str, *kinds: PartKind) -> Floats:
        """Time per step of a stage, of some kinds of its parts where given. Shape (steps,)."""
        return self._sum(self._rows(stage, kinds))

    def of_parts(self, *parts: Part) -> Floats:
        """Time per step of some parts together, those that are there. Shape (steps,)."""
        return self._sum(self._at(parts))

    def total(self, stage: str, *kinds: PartKind) -> float:
        """Time (ns) of all steps together of a stage, of some kinds of its parts where given."""
        return math.fsum(self._rows_ns[i] for i in self._rows(stage, kinds))

    def total_of(self, *parts: Part) -> float:
        """Time (ns) of all steps together of some parts."""
        return math.fsum(self._rows_ns[i] for i in self._at(parts))

    @property
    def whole(self) -> float:
        """Time (ns) of all steps together, of all parts: never less than a stage's."""
        return math.fsum(self._rows_ns)

    def share(self, stage: str, *kinds: PartKind) -> float:
        """Share of the window, 0 to 1; of a window without time none."""
        return self._share(self.total(stage, *kinds))

    def share_of(self, *parts: Part) -> float:
        """The same of some parts."""
        return self._share(self.total_of(*parts))

    def bounds(self, *parts: Part) -> tuple[float, float]:
        """The least and the most time (ns) that some parts together took, in all steps: both are `total_of` where that is known.

        What is not known can be theirs once only.
        """
        if self.low is None or self.high is None:
            return (self.total_of(*parts),) * 2
        rows = self._at(parts)
        low = float(self.low[rows].sum())
        most = np.minimum(self.high[rows].sum(axis=0), self.ns.sum(axis=0) - np.delete(self.low, rows, axis=0).sum(axis=0))
        return low, float(most.sum())

    def parts_of(self, stage: str, *kinds: PartKind) -> tuple[Part, ...]:
        """The parts of a stage, of some kinds where given."""
        return tuple(self.parts[i] for i in self._rows(stage, kinds))

    def _share(self, ns: float) -> float:
        whole = self.whole
        return ns / whole if whole > 0 else 0.0

    def _sum(self, rows: list[int]) -> Floats:
        return np.asarray(self.ns[rows].sum(axis=0)) if rows else np.zeros(self.ns.shape[1])

    def _rows(self, stage: str, kinds: tuple[PartKind, ...]) -> list[int]:
        return [i for i, part in enumerate(self.parts) if part.stage == stage and (not kinds or part.kind in kinds)]

    def _at(self, parts: tuple[Part, ...]) -> list[int]:
        return sorted({self._row_of[part] for part in parts if part in self._row_of})


def ledger_rows(ledger: Ledger) -> pl.DataFrame:
    """One row per step and part that took any time: `step`, the part, `ns`; of a step they sum to its length."""
    known = rows_of(ledger.parts)
    rows = [
        pl.DataFrame({"step": pl.arange(ledger.steps, eager=True, dtype=pl.UInt32), "ns": ns})
        # Most parts are in few of the steps: names for all of them would take far more memory.
        .filter(pl.col("ns") > 0)
        .join(known[row], how="cross")
        for row, ns in enumerate(ledger.ns)
    ]
    if not rows:
        return known.with_columns(step=pl.lit(0, pl.UInt32), ns=pl.lit(0.0)).select("step", *COLUMNS, "ns")
    return pl.concat(rows).select("step", *COLUMNS, "ns").sort("step", maintain_order=True)


def with_core_delay_by_step(ledger: Ledger, *parts: Part) -> Floats:
    """Time per step of some parts of one stage, with their share of what the stage waited for a core in that step."""
    stage = parts[0].stage
    own, delay = ledger.of_parts(*parts), ledger.of(stage, PartKind.CORE_WAIT)
    others = ledger.of(stage) - delay
    share = np.divide(own, others, out=np.zeros_like(own), where=others > 0)
    return np.asarray(own + delay * share)
