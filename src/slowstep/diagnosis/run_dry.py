"""The calls after which the device ran dry, each with what it waited for: the parts of the ledger's `d2h` that are named for a call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from slowstep.analyses.steps import Floats
from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.analyses.trace.parts import RUN_DRY
from slowstep.diagnosis.trace_side import per_step, place

# From this size on it is the transfer that costs, and not the wait for it: at 12 GB/s (PCIe 3, 16 lanes) 1 MiB takes 87 us, more than
# the 20 to 40 us until a kernel that was launched begins (seed 002).
LARGE_BYTES: Final = 1 << 20
# Calls that give memory back or ask for it wait for the device too; they are another problem's.
ALLOCATES: Final = r"Free|Malloc"

# Of the steps in which a read-back must occur to be called one of every step: a step at the window's edge may be cut.
EVERY_STEP: Final = 0.9

Kind = Literal["read-back", "large read-back", "copy to the device", "allocator", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDry:
    """One part of the ledger: a call, its place, and the time per step (shape (steps,), ns) for which the device had no work after it.

    `waits_for` is what most of that time was spent for. `count`, `steps` and `wait_ns` (host time inside) are those of its calls.
    """

    part: str
    call: str
    operator: str | None
    where: str | None
    waits_for: Kind
    ns: Floats
    count: int
    steps: int
    wait_ns: int
    bytes_each: float | None

    @property
    def named(self) -> str:
        """The operator, else the call, with its line."""
        return place(self.operator or self.call, self.where)


def run_dries(m: TraceMeasurements) -> list[RunDry]:
    """All of them, the costliest first."""
    ledger = m.table("ledger").filter((pl.col("stage") == "d2h") & pl.col("part").str.starts_with(RUN_DRY))
    calls = m.table("synchronizations")
    found = [_run_dry(m, part, _calls_of(part, calls)) for part in ledger["part"].unique(maintain_order=True).to_list()]
    return sorted(found, key=lambda one: -float(one.ns.sum()))


def together_ns(m: TraceMeasurements, found: Iterable[RunDry]) -> Floats:
    """Time per step of several. Shape (steps,), ns."""
    return np.asarray(sum((one.ns for one in found), np.zeros(m.table("steps").height)))


def in_every_step(m: TraceMeasurements, one: RunDry) -> bool:
    """Whether its calls occur in (nearly) every step; False in a window of one step, which cannot tell."""
    steps = m.table("steps").height
    return steps > 1 and one.steps >= EVERY_STEP * steps


def _run_dry(m: TraceMeasurements, part: str, calls: pl.DataFrame) -> RunDry:
    call, where = _names(part)
    ns = per_step(m, "d2h", part)
    kinds = pl.Series("kind", [_kind(row, m.table("copies")) for row in calls.iter_rows(named=True)], dtype=pl.String)
    costs = calls.with_columns(kinds).group_by("kind", maintain_order=True).agg(pl.col("run_dry_ns").sum())
    waits_for: Kind = "allocator" if _allocates(call) else "other"
    if costs.height:
        waits_for = costs.sort("run_dry_ns", descending=True)["kind"][0]
    rows = calls.with_columns(kinds).filter(pl.col("kind") == waits_for).sort("run_dry_ns", descending=True)
    sized = rows.filter(pl.col("bytes").is_not_null())
    return RunDry(
        part=part,
        call=call,
        operator=rows["operator"][0] if rows.height else None,
        where=where,
        waits_for=waits_for,
        ns=ns,
        count=int(rows["count"].sum()),
        steps=max([*rows["steps"].to_list(), int((ns > 0).sum()) if not rows.height else 0]),
        wait_ns=int(rows["host_wait_ns"].sum()),
        bytes_each=int(sized["bytes"].sum()) / max(int(sized["count"].sum()), 1) if sized.height else None,
    )


def _names(part: str) -> tuple[str, str | None]:
    """The call of a part and its line, where it has one: "run dry after cudaStreamSynchronize, train.py:12"."""
    call, _, where = part.removeprefix(RUN_DRY).partition(", ")
    return call, where or None


def _calls_of(part: str, calls: pl.DataFrame) -> pl.DataFrame:
    call, where = _names(part)
    named = calls.filter(pl.col("call") == call)
    return named.filter(pl.col("where") == where) if where is not None else named.filter(pl.col("where").is_null())


def _kind(row: dict[str, Any], copies: pl.DataFrame) -> Kind:
    if row["reads_back"]:
        return "large read-back" if (row["bytes"] or 0) >= LARGE_BYTES * row["count"] else "read-back"
    if _allocates(row["call"]):
        return "allocator"
    if row["operator"] is None:
        return "other"
    here = (pl.col("operator") == row["operator"]) & pl.col("where").eq_missing(pl.lit(row["where"], dtype=pl.String))
    return "copy to the device" if copies.filter((pl.col("kind") == "h2d") & pl.col("blocking") & here).height else "other"


def _allocates(call: str) -> bool:
    return re.search(ALLOCATES, call) is not None
