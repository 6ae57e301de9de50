"""The table `loss_scaling`: where a gradient scaler reads back whether gradients overflowed, and what the device then lacked.

A scaler divides the gradients by its factor and looks for infinities on the device; it then reads the answer before it calls the optimizer,
and afterwards changes the factor on the device. So the read-back is the last one between the check and what follows it first: the
optimizer's step or the update. Optimizers that take the answer on the device (fused ones) have none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.device.charged import charged
from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.analyses.events.tables import LOSS_SCALING
from slowstep.analyses.python.callers import Callers
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.parts import PartKind
from slowstep.timeline.intervals import containing
from slowstep.timeline.timeline import Timeline

READS_SCHEMA: Final = {"thread": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64}


def overflow_reads(timeline: Timeline) -> pl.DataFrame:
    """The read-backs of gradient scalers: `thread`, `start_ns`, `end_ns` of the operator, in order of thread and time."""
    host = timeline.rows("host_events", "thread", "start_ns", "end_ns", "kind", "name")
    host = host.filter(pl.col("kind").is_in(["operator", "annotation"]))
    names = host.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
    text = pl.col("text")
    check = pl.when(text.str.contains(events(Event.SCALE_CHECK))).then(pl.lit("check"))
    role = check.when(text.str.contains(events(Event.SCALE_READ))).then(pl.lit("read"))
    role = role.when(text.str.contains(events(Event.SCALE_FOLLOWS))).then(pl.lit("follows"))
    names = names.with_columns(role.alias("role")).filter(pl.col("role").is_not_null())
    rows = host.join(names, on="name", how="inner").select("thread", "start_ns", "end_ns", "role").sort("thread", "start_ns")
    # With the checks and what follows them alone in `open`, a read-back is the scaler's if the last of these before it is a check, and
    # the next row of its thread is no further read-back.
    marks = pl.when(pl.col("role") != "read").then("role")
    rows = rows.with_columns(
        marks.forward_fill().over("thread").alias("open"),
        pl.col("role").shift(-1).over("thread").alias("next"),
    )
    found = rows.filter((pl.col("role") == "read") & (pl.col("open") == "check") & (pl.col("next") == "follows"))
    return found.select(pl.col(name).cast(kind) for name, kind in READS_SCHEMA.items())


def find_loss_scaling(timeline: Timeline, steps: pl.DataFrame, gaps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table LOSS_SCALING of the window; `gaps` is the table GAPS."""
    found = overflow_reads(timeline)
    if found.is_empty() or steps.is_empty():
        return LOSS_SCALING.empty()
    step = containing(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), found["end_ns"].to_numpy())
    inside = step >= 0
    found = found.filter(pl.Series(inside)).with_columns(steps["step"].gather(pl.Series(step[inside])).alias("step"))
    around = (callers or Callers(timeline)).around(found["thread"], found["start_ns"])
    dry = gaps.filter(pl.col("kind") == PartKind.RUN_DRY.value)
    # What is charged to a call lies between its begin and the next call of the thread that waits.
    run_dry, part = charged(found["start_ns"].to_numpy(), _next_wait(timeline, found), dry)
    rows = pl.concat([found.with_columns(around["where"], pl.Series("run_dry_ns", run_dry)), part], how="horizontal")
    return rows.sort("start_ns").select(pl.col(column.name).cast(column.type) for column in LOSS_SCALING.columns)


def _next_wait(timeline: Timeline, found: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """When, after each read-back's end, its thread next begins a call that waits; the trace's far end where it does not."""
    waits = synchronizing_calls(timeline).select("thread", pl.col("start_ns").alias("next_ns")).sort("next_ns")
    asked = found.select("thread", "end_ns").with_row_index("row").sort("end_ns")
    joined = asked.join_asof(waits, left_on="end_ns", right_on="next_ns", by="thread", strategy="forward", check_sortedness=False)
    return joined.sort("row")["next_ns"].fill_null(np.iinfo(np.int64).max).to_numpy()
