"""Shares of the steps that a profiler marks, with their spread over these, and what of the ledger a finding about them claims."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, is_part, parts_of, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.chance import SEED
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.gain import RESAMPLES
from slowstep.findings import Evidence
from slowstep.parts import Part, PieceKind

# Host time looks longer in a trace than it is: torch.profiler makes a small step's processor time 1.23 to 1.70 times as long
# (measured). What is 5 % of such a step is the 3 % of docs/definitions.md of one that nobody profiles. XProf's and the Kineto plugin's
# first marks for the same quantities are 3 and 5 %.
HOST_SHARE: Final = 0.05
# A finding that has most of a part takes it as a whole: what others say of that part is the same in other words.
MOST: Final = 0.5


def per_step(m: Measurements, *parts: Part) -> Floats:
    """Time charged to some parts together in each step. Shape (steps,), ns."""
    return m.ledger.of_parts(*(part.whole for part in parts))


def by_step(m: Measurements, step: pl.Series, ns: pl.Series) -> Floats:
    """Sums of times by step. Shape (steps,), ns."""
    return np.bincount(step.to_numpy(), weights=ns.to_numpy(), minlength=m.marks.table.height).astype(np.float64)


def share_of_steps(m: Measurements, part_ns: Floats) -> tuple[float, float, float]:
    """Share of the window that a part takes, and its 90 % interval by the bootstrap over steps; a single step has no spread.

    Steps are drawn one by one: a trace holds too few of them for blocks.
    """
    step_ns = m.step_ns
    if not len(step_ns) or not step_ns.sum():
        return 0.0, 0.0, 0.0
    drawn = np.random.default_rng(SEED).integers(0, len(step_ns), size=(RESAMPLES, len(step_ns)))
    low, high = np.percentile(part_ns[drawn].sum(axis=1) / np.maximum(step_ns[drawn].sum(axis=1), 1.0), [5, 95])
    return float(part_ns.sum() / step_ns.sum()), float(low), float(min(high, 1.0))


def spread_over(part_ns: Floats, total_ns: float, steps: int) -> Floats:
    """A time of which only the sum is known and the number of steps in which it occurs, laid over steps as a part of the ledger is.

    Of that part it gets the steps with most time: what occurs in few steps must have the spread of few steps.
    """
    kept = np.zeros(len(part_ns))
    chosen = np.argsort(-part_ns, kind="stable")[: max(steps, 1)]
    kept[chosen] = part_ns[chosen] if part_ns[chosen].sum() else 1.0
    return np.asarray(kept * (total_ns / kept.sum())) if len(kept) else kept


def claim_of(m: Measurements, part: Part, what: PieceKind, ns: Floats) -> Part:
    """The claim of a finding about `ns` (shape (steps,)) of a part of the ledger: the part where that is most of it, else a piece of it."""
    return part if float(ns.sum()) >= MOST * float(per_step(m, part).sum()) else piece(part, what)


def claims_of(m: Measurements, rows: pl.DataFrame, what: PieceKind, ns: str = "ns", columns: tuple[str, ...] = COLUMNS) -> tuple[Part, ...]:
    """The claims of a finding about rows with `step`, a part in some columns and, in one named `ns`, their time: one for each part."""
    return tuple(
        claim_of(m, part, what, by_step(m, own["step"], own[ns]))
        for part in parts_of(rows, columns)
        for own in (rows.filter(is_part(part, columns=columns)),)
    )


def largest_stage(rows: pl.DataFrame, ns: str = "ns") -> str:
    """The stage to which most time of rows with `stage` and, in a column named `ns`, their time was charged."""
    return str(rows.group_by("stage").agg(pl.col(ns).sum()).sort(ns, "stage", descending=[True, False])["stage"][0])


def steps_seen(m: Measurements) -> Evidence:
    """The evidence row that says over how few steps all others are; a trace that marks none is measured as if it were one."""
    marked = None if m.marks.is_window else m.marks.table.height
    return Evidence(name="steps looked at", value=marked, unit="steps", where="the trace marks none" if m.marks.is_window else None)
