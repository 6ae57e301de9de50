"""The gaps inside steps in which the device waits for launches, and what of them is due to read-backs.

A read-back lets the device run dry twice over. What follows at once, up to the next kernel, is charged to it in the ledger. But the host,
which waited until the device had done everything, is no longer ahead of it, so that each of the next kernels comes late by what its launch
takes: that is charged to launching, though nobody would see it if the host had stayed ahead. Only a replay without the read-backs tells how
much that is.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import LAUNCH, is_part
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_READBACKS
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.device.run_dry import EVERY_STEP
from slowstep.diagnosis.evidence.profiled.marked_steps import MOST, by_step
from slowstep.diagnosis.replayed import Replayed


def launch_gaps(m: Measurements) -> pl.DataFrame:
    """The rows of the table `gaps` that are such gaps, with their length `ns`."""
    gaps = m.device.gaps.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    return gaps.filter(is_part(LAUNCH) & ~pl.col("between_steps"))


def launches_exposed_by_readbacks(m: Measurements, dry_ns: Floats) -> Floats:
    """Of these gaps what read-backs, after which the device ran dry for `dry_ns`, cost besides. Both of shape (steps,), ns.

    Nothing where most of the gaps would stay without the read-backs: then launching itself is too slow, whoever waits.
    """
    gaps = launch_gaps(m)
    ns, removed = by_step(m, gaps["step"], gaps["ns"]), Replayed(NO_READBACKS, assumes="nothing were read back").removed_ms(m)
    if removed is None or not ns.sum() or not dry_ns.sum():
        return np.zeros(len(ns))
    share = min((removed * 1e6 - float(dry_ns.mean())) / float(ns.mean()), 1.0)
    return ns * share if share >= MOST else np.zeros(len(ns))


def readbacks_a_step(m: Measurements) -> tuple[float, str | None] | None:
    """How many copies to the host a step waits for, and the operator of most of them; None where not every step has one, or unknown."""
    copies = m.device.copies.filter((pl.col("kind") == "d2h") & pl.col("blocking"))
    a_step = int(copies["count"].sum()) / max(m.marks.table.height, 1)
    if m.marks.is_window or a_step < EVERY_STEP:
        return None
    return a_step, copies.sort("count", descending=True)["operator"][0]
