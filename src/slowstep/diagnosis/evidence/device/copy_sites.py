"""Where a training copies between host and device, and how much of a step each of these places holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from slowstep.analyses.events.parts import COPIES, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.device.run_dry import RunDry, WaitsFor, run_dries, together_ns
from slowstep.diagnosis.evidence.profiled.host_calls import place
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step, spread_over
from slowstep.findings import Evidence
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.parts import Part, PieceKind
from slowstep.units import format_count

# Both directions have a part of this name in the ledger, in stages of their own: no finding about one may fold into one about the other.
DIRECTION: Final = {"h2d": PieceKind.TO_DEVICE, "d2h": PieceKind.TO_HOST}
# What brings parameters or an optimizer's states that are kept on the host: the hooks of DeepSpeed (`_pre_forward_module_hook`,
# `fetch_sub_module`), what is named so, or what a framework does it by.
PARAMETERS: Final = (
    r"(?i:deepspeed|zero_?offload|cpu_?offload|offload(ed|ing)?([^a-z]|$)|unshard|pre_(forward|backward)|fetch_sub_module"
    rf"|(^|[^a-z])param(eter)?s?([^a-z]|$))|{events(Event.PARAMETERS)}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyTime:
    """What some rows of the table `copies` hold: time per step (shape (steps,), ns), and the parts of the ledger that it was charged to.

    `sites` has a row for each place, the costliest first: `operator`, `where`, `kind`, `count`, `steps`, `bytes`, `total_ns`, `exposed_ns`,
    `held_ns`.
    """

    copies: pl.DataFrame
    sites: pl.DataFrame
    ns: Floats
    claims: tuple[Part, ...]
    exposed_ns: Floats  # of `ns`, while the copies ran; the rest is after calls that waited for them


def held(m: Measurements, stage: str, copies: pl.DataFrame, waits_for: WaitsFor) -> CopyTime:
    """What copies of one direction hold: `stage` is where their exposed time is charged, `waits_for` what calls that wait for them are."""
    charged = per_step(m, COPIES[stage])
    # Copies of several streams or devices may run at once; the ledger counts an instant once.
    of_all = float(m.device.copies.filter(pl.col("kind") == stage)["exposed_ns"].sum())
    scale = min(float(charged.sum()) / max(of_all, 1.0), 1.0)
    exposed = spread_over(charged, scale * float(copies["exposed_ns"].sum()), max(copies["steps"].to_list(), default=0))
    sites = copies.group_by("operator", "where", maintain_order=True).agg(
        pl.col("kind").first(), pl.col("steps").max(), pl.sum("count", "total_ns", "exposed_ns"), pl.col("bytes").drop_nulls().sum()
    )
    waits = [one for one in run_dries(m) if one.waits_for is waits_for and _among(one, sites)]
    costs = pl.Series("held_ns", [_held_ns(row, waits, scale) for row in sites.iter_rows(named=True)], dtype=pl.Float64)
    return CopyTime(
        copies=copies,
        sites=sites.with_columns(costs).sort("held_ns", descending=True, maintain_order=True),
        ns=exposed + together_ns(m, waits),
        claims=((piece(COPIES[stage], DIRECTION[stage]),) if exposed.sum() else ()) + tuple(one.part for one in waits),
        exposed_ns=exposed,
    )


def _often(copies: int, steps: int) -> str:
    return f"{format_count(copies, 'copy', 'copies')} in {format_count(steps, 'step')}"


def site_rows(m: Measurements, found: CopyTime, most: int = 3) -> tuple[Evidence, ...]:
    """The costliest places as evidence: the share of the window that each of them holds."""
    return tuple(
        Evidence(
            name=f"{row['operator'] or row['kind']}, {_often(row['count'], row['steps'])}",
            value=row["held_ns"] / max(m.steps.length_ns, 1),
            unit="share of window",
            where=row["where"],
        )
        for row in found.sites.head(most).iter_rows(named=True)
    )


def traffic(m: Measurements, copies: pl.DataFrame) -> tuple[Evidence, ...]:
    """Bytes per step and speed as evidence."""
    known = copies.filter(pl.col("bytes").is_not_null())
    size_bytes, total_ns = int(known["bytes"].sum()), int(known["total_ns"].sum())
    steps = max(m.marks.table.height, 1)
    return (
        Evidence(name="copied", value=size_bytes / 1e6 / steps if known.height else None, unit="MB per step"),
        Evidence(name="speed", value=size_bytes / total_ns if total_ns else None, unit="GB/s"),
    )


def site_name(found: CopyTime) -> str:
    """The costliest place that has a name, in words, and how many places there are beside it."""
    named = _named(found)
    if not named.height:
        return "the trace does not name where"
    others = f" and {found.sites.height - 1} more" if found.sites.height > 1 else ""
    return place(named["operator"][0], named["where"][0]) + others


def brings_parameters(found: CopyTime) -> bool:
    """Whether the costliest place that has a name copies parameters rather than a batch."""
    named = _named(found)
    text = " ".join(word for word in (named["operator"][0], named["where"][0]) if word) if named.height else ""
    return re.search(PARAMETERS, text) is not None


def _named(found: CopyTime) -> pl.DataFrame:
    return found.sites.filter(pl.col("operator").is_not_null() | pl.col("where").is_not_null())


def _among(one: RunDry, sites: pl.DataFrame) -> bool:
    return any(_same_place(one, row) for row in sites.select("operator", "where").iter_rows(named=True))


def _same_place(one: RunDry, row: dict[str, Any]) -> bool:
    return (one.operator, one.where) == (row["operator"], row["where"])


def _held_ns(row: dict[str, Any], waits: list[RunDry], scale: float) -> float:
    return scale * float(row["exposed_ns"]) + sum(float(one.ns.sum()) for one in waits if _same_place(one, row))
