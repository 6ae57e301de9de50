"""The calls after which the device ran dry, each with what it waited for: the parts of the ledger's `d2h` that are named for a call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
import polars as pl

from slowstep.analyses.device.charged import CHARGED
from slowstep.analyses.device.copies import LARGE_BYTES
from slowstep.analyses.events.parts import COLUMNS, is_part, part_of
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.profiled.host_calls import place
from slowstep.diagnosis.evidence.profiled.marked_steps import by_step
from slowstep.parts import Part, PartKind

# Calls that give memory back or ask for it wait for the device too; they are another problem's.
ALLOCATES: Final = r"Free|Malloc"

# Of the steps in which a read-back must occur to be called one of every step: a step at the window's edge may be cut.
EVERY_STEP: Final = 0.9


class WaitsFor(StrEnum):
    """What a call waits for, after which the device had nothing to do."""

    READ_BACK = "read-back"
    LARGE_READ_BACK = "large-read-back"
    COPY_TO_DEVICE = "copy-to-device"
    ALLOCATOR = "allocator"
    LOSS_SCALING = "loss-scaling"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDry:
    """One part of the ledger: a call, its place, and the time per step (shape (steps,), ns) for which the device had no work after it.

    `waits_for` is what most of that time was spent for. `count`, `steps` and `wait_ns` (host time inside) are those of its calls.
    """

    part: Part
    call: str
    operator: str | None
    where: str | None
    waits_for: WaitsFor
    ns: Floats
    count: int
    steps: int
    wait_ns: int
    bytes_each: float | None
    places: int = 1  # that the trace tells apart: operators, or lines

    @property
    def named(self) -> str:
        """The operator, else the call, and the function that it is in."""
        return place(self.operator or self.call, self.where)


def run_dries(m: Measurements) -> list[RunDry]:
    """All of them, the costliest first."""
    gaps = m.device.gaps.filter(pl.col("kind") == PartKind.RUN_DRY.value)
    gaps = gaps.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    scaling = _of_scaling(m)
    calls = m.device.synchronizations
    calls = calls.with_columns(pl.Series("kind", [_kind(row, m.device.copies) for row in calls.iter_rows(named=True)], dtype=pl.String))
    parts = [part_of(row) for row in gaps.select(COLUMNS).unique(maintain_order=True).iter_rows()]
    found = [_run_dry(m, part, gaps.filter(is_part(part)), calls) for part in parts]
    found = [replace(one, waits_for=WaitsFor.LOSS_SCALING) if scaling.get(one.part, 0) > one.ns.sum() / 2 else one for one in found]
    return sorted(found, key=lambda one: -float(one.ns.sum()))


def _of_scaling(m: Measurements) -> dict[Part, int]:
    """By part, the time after a gradient scaler's read-backs of its flag: another rule's, as nobody can read that less often. In ns."""
    reads = m.device.loss_scaling
    if not reads.height:
        return {}
    sums = reads.drop_nulls("charged_stage").group_by(CHARGED).agg(pl.col("run_dry_ns").sum())
    return {part_of(row): ns for *row, ns in sums.select(*CHARGED, "run_dry_ns").iter_rows()}


def together_ns(m: Measurements, found: Iterable[RunDry]) -> Floats:
    """Time per step of several. Shape (steps,), ns."""
    return np.asarray(sum((one.ns for one in found), np.zeros(m.marks.table.height)))


def in_every_step(m: Measurements, one: RunDry) -> bool:
    """Whether its calls occur in (nearly) every step; False in a window of one step, which cannot tell."""
    steps = m.marks.table.height
    return steps > 1 and one.steps >= EVERY_STEP * steps


def _run_dry(m: Measurements, part: Part, gaps: pl.DataFrame, calls: pl.DataFrame) -> RunDry:
    by_place = gaps.group_by("call", "operator", "where", maintain_order=True).agg(pl.col("ns").sum().alias("gap_ns"))
    joined = by_place.join(calls, on=["call", "operator", "where"], how="left", nulls_equal=True, maintain_order="left")
    named = part.name or ""
    joined = joined.with_columns(
        pl.col("call").fill_null(named), pl.col("kind").fill_null(WaitsFor.ALLOCATOR if _allocates(named) else WaitsFor.OTHER)
    )
    costs = joined.group_by("kind", maintain_order=True).agg(pl.col("gap_ns").sum()).sort("gap_ns", descending=True, maintain_order=True)
    rows = joined.filter(pl.col("kind") == costs["kind"][0]).sort("gap_ns", descending=True, maintain_order=True)
    sized = rows.filter(pl.col("bytes").is_not_null())
    return RunDry(
        part=part,
        call=rows["call"][0],
        operator=rows["operator"][0],
        where=rows["where"][0],
        waits_for=WaitsFor(costs["kind"][0]),
        ns=by_step(m, gaps["step"], gaps["ns"]),
        count=int(rows["count"].sum()),
        steps=max(rows["steps"].drop_nulls().to_list(), default=gaps["step"].n_unique()),
        wait_ns=int(rows["host_wait_ns"].sum()),
        places=rows.height,
        bytes_each=int(sized["bytes"].sum()) / max(int(sized["count"].sum()), 1) if sized.height else None,
    )


def _kind(row: dict[str, Any], copies: pl.DataFrame) -> WaitsFor:
    if row["reads_back"]:
        return WaitsFor.LARGE_READ_BACK if (row["bytes"] or 0) >= LARGE_BYTES * row["count"] else WaitsFor.READ_BACK
    if _allocates(row["call"]):
        return WaitsFor.ALLOCATOR
    if row["operator"] is None and row["where"] is None:
        return WaitsFor.OTHER
    here = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name], dtype=pl.String)) for name in ("operator", "where"))
    if copies.filter((pl.col("kind") == "h2d") & pl.col("blocking") & here).height:
        return WaitsFor.COPY_TO_DEVICE
    return WaitsFor.OTHER


def _allocates(call: str) -> bool:
    return re.search(ALLOCATES, call) is not None
