"""The table `named_work`: what the device computed for what somebody has named beside the model.

The ledger has a busy device as `compute`, whatever it is busy with: a validation that fills it would look like the model's own work.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.events.device_work import busiest_device, device_work
from slowstep.analyses.events.parts import COLUMNS
from slowstep.analyses.events.tables import NAMED_WORK
from slowstep.analyses.events.unions import merged
from slowstep.analyses.ledger.stage_ranges import told_ranges
from slowstep.stages import RESULT_STAGES
from slowstep.timeline.intervals import containing, covered_ns
from slowstep.timeline.timeline import Timeline


def find_named_work(timeline: Timeline, steps: pl.DataFrame) -> pl.DataFrame:
    """The table NAMED_WORK of the window; empty without a device. Of ranges inside each other the outermost counts."""
    ranges, judged = told_ranges(timeline).filter(pl.col("stage").is_in(RESULT_STAGES)), busiest_device(timeline)
    if ranges.is_empty() or judged is None or steps.is_empty():
        return NAMED_WORK.empty()
    kernels = device_work(timeline, judged).filter(pl.col("kind") == "kernel", pl.col("launch_start_ns").is_not_null())
    found = [_launched(kernels, of_thread) for of_thread in ranges.partition_by("thread")]
    named = [_by_step(steps, rows) for rows in pl.concat(found).partition_by(COLUMNS)]
    rows = pl.concat(named) if named else NAMED_WORK.empty()
    return rows.sort("step", *COLUMNS).select(pl.col(column.name).cast(column.type) for column in NAMED_WORK.columns)


def _launched(kernels: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """The kernels that a thread launched inside its ranges, with their part."""
    reach = pl.col("end_ns").cum_max().shift(1)
    outer = ranges.sort("start_ns", "end_ns", descending=[False, True]).filter(reach.is_null() | (pl.col("start_ns") >= reach))
    own = kernels.filter(pl.col("launch_thread") == outer["thread"][0])
    at = containing(outer["start_ns"].to_numpy(), outer["end_ns"].to_numpy(), own["launch_start_ns"].to_numpy())
    inside = own.filter(pl.Series(at >= 0)).select("start_ns", "end_ns")
    return inside.with_columns(outer.select(COLUMNS)[at[at >= 0]])


def _by_step(steps: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The kernels of one name: how many began in each step, and the time in which any ran."""
    low, high = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    start, end = merged(rows)
    ns = covered_ns(start, end, high) - covered_ns(start, end, low)
    began = containing(low, high, rows["start_ns"].to_numpy())
    kernels = np.bincount(began[began >= 0], minlength=len(low))
    part = (pl.lit(rows[name][0], dtype=pl.String).alias(name) for name in COLUMNS)
    return pl.DataFrame({"step": steps["step"], "kernels": kernels, "ns": ns}).with_columns(part).filter(pl.col("ns") > 0)
