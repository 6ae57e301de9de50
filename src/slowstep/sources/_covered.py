"""What a timeline has of what its source can see at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from slowstep.timeline.coverage import UNSEEN, CoverageLevel, CoveredSteps, KindCoverage


def covered_by_trace(most: Mapping[str, KindCoverage], tables: Mapping[str, pl.DataFrame]) -> dict[str, KindCoverage]:
    """That of a trace: profilers do not say what they were not asked for, so that a kind without a row is none that was seen."""
    host = tables["host_events"]
    kinds = set(host["kind"].unique().to_list())
    seen = {
        "steps": _has(tables, "marked_steps"),
        "host": bool(kinds - {"python"}),
        "functions": "python" in kinds,
        "device": _has(tables, "device_events"),
        "dispatches": host["correlation"].null_count() < len(host),
        "allocations": _has(tables, "allocations"),
    }
    return {kind: _had(stated) if seen.get(kind) else UNSEEN for kind, stated in most.items()}


def covered_by_recording(most: Mapping[str, KindCoverage], tables: Mapping[str, pl.DataFrame]) -> dict[str, KindCoverage]:
    """That of a recording: hooks are in place whether or not they saw anything, but the device was asked or was not."""
    kept = _one_in(tables)
    steps = CoveredSteps.ALL if kept is None else CoveredSteps.ONE_IN_SEVERAL
    stacks = tables["stacks"]["device_idle"]
    asked = stacks.null_count() < len(stacks)
    return {
        kind: UNSEEN
        if kind == "device" and not asked
        else replace(_had(stated), steps=steps, one_in=kept)
        if stated.steps is CoveredSteps.ONE_IN_SEVERAL
        else _had(stated)
        for kind, stated in most.items()
    }


def _one_in(tables: Mapping[str, pl.DataFrame]) -> float | None:
    """How many steps there were for each of which more than the number was kept; None where nothing was left out."""
    totals = tables["totals"]
    left_out = int(totals["steps"].sum())
    kept = int(tables["updates"]["process"].is_in(totals["process"].unique().implode()).sum())
    return (left_out + kept) / max(kept, 1) if left_out else None


def _had(stated: KindCoverage) -> KindCoverage:
    return stated if stated.known is CoverageLevel.NONE else replace(stated, shown_with=None)


def _has(tables: Mapping[str, pl.DataFrame], name: str) -> bool:
    return name in tables and len(tables[name]) > 0
