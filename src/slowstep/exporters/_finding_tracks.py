"""When what a finding is about happened: the instants of the ledger's parts that it claims, as a track of its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from slowstep.analyses.device.operators import mostly_on_host
from slowstep.analyses.events.device_work import busiest_device
from slowstep.analyses.events.parts import is_part
from slowstep.analyses.events.unions import merged
from slowstep.diagnosis.rules.device.allocator_churn import ALLOCATES, ASYNC
from slowstep.findings import EvidenceCode, Finding
from slowstep.parts import Part, PieceKind
from slowstep.timeline.intervals import containing, pieces
from slowstep.timeline.timeline import Timeline

TIMES = ("start_ns", "end_ns")
BETWEEN_STEPS = {PieceKind.BETWEEN_STEPS: True, PieceKind.INSIDE_STEPS: False}


def finding_track(finding: Finding, stretches: pl.DataFrame, timeline: Timeline, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The finding's instants as disjoint stretches in order of time: `start_ns`, `end_ns`. Empty where it is about no instants."""
    found = [_claimed(claim, stretches, timeline, tables) for claim in finding.claims]
    if not found:
        # Of one that claims no time, its evidence names what it is about.
        found = [_operation(row.value, timeline, tables) for row in finding.evidence if row.code is EvidenceCode.OPERATION]
    start, end = merged(pl.concat([stretches.select(TIMES).clear(), *found]))
    return pl.DataFrame({"start_ns": start, "end_ns": end})


def _claimed(claim: Part, stretches: pl.DataFrame, timeline: Timeline, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The instants of a part of the ledger, or of a piece of it as far as the trace tells its pieces apart."""
    part, what = claim.whole, claim.piece
    if what is not None and what.kind is PieceKind.KERNELS:
        kind, precision = what.names
        rows = tables["kernels"].filter((pl.col("class") == kind) & pl.col("precision").eq_missing(pl.lit(precision, dtype=pl.String)))
        return _runs(rows, timeline, tables)
    gaps = tables["gaps"].filter(is_part(part))
    rows = gaps if gaps.height else stretches.filter(is_part(part))
    return _piece(None if what is None else what.kind, rows, tables).select(TIMES)


def _piece(what: PieceKind | None, rows: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Of a part's instants those of a piece of it; all of them where only the rule that claims it could tell."""
    if what in BETWEEN_STEPS:
        return rows.filter(pl.col("between_steps") == BETWEEN_STEPS[what])
    if what is PieceKind.ALLOCATOR_CALLS:
        return rows.filter(pl.col("call").str.contains(ALLOCATES) & ~pl.col("call").str.contains(ASYNC))
    if what is PieceKind.HOST_OPERATIONS:
        sites = mostly_on_host(tables["operators"], "name", "where").rename({"name": "operator"})
        return rows.join(sites, on=["operator", "where"], how="semi", nulls_equal=True)
    if what is PieceKind.COMPILING:
        start, end = merged(tables["compilations"])
        of, begin, finish = pieces(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), np.concatenate((start, end)))
        inside = containing(start, end, begin) >= 0
        return rows[of[inside]].with_columns(pl.Series("start_ns", begin[inside]), pl.Series("end_ns", finish[inside]))
    return rows


def _operation(name: object, timeline: Timeline, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """When an operation's kernels ran, or a kernel of that name; where there are none, when the host was in it."""
    runs = _runs(tables["kernels"].filter((pl.col("operator") == name) | (pl.col("name") == name)), timeline, tables)
    if runs.height:
        return runs
    host = timeline.rows("host_events", "start_ns", "end_ns", "name", kinds=["operator"])
    return _inside(host.filter(pl.col("name").cast(pl.String) == name), tables["steps"])


def _runs(kernels: pl.DataFrame, timeline: Timeline, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The runs of some rows of the table `kernels` on the device that is judged."""
    events = timeline.rows("device_events", "device", "start_ns", "end_ns", "name", kinds=["kernel"])
    mine = events.filter(pl.col("device").eq_missing(busiest_device(timeline)))
    return _inside(mine.filter(pl.col("name").cast(pl.String).is_in(kernels["name"].implode())), tables["steps"])


def _inside(rows: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Those that begin inside the window."""
    window = pl.col("start_ns").is_between(steps["start_ns"].min(), steps["end_ns"].max(), closed="left")
    return (rows.filter(window) if steps.height else rows.clear()).select(TIMES)
