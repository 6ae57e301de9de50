"""The table `placement`: where operators ran and in which precision.

Profilers for TensorFlow call it op placement and the share of op time in 16 bit (TensorFlow guide, optimize GPU performance).
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.device.operators import computes, read_operators
from slowstep.analyses.device.precision import precisions
from slowstep.analyses.events.names import matches
from slowstep.analyses.events.tables import PLACEMENT
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.steps.step_lookup import in_window, slices
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.timeline import Timeline

# What only sends; it has a table of its own.
COMMUNICATION = rf"^(n|r)ccl:|::(multimem_)?all_reduce|{events(Event.COLLECTIVE)}"


def find_placement(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table PLACEMENT of the operators called inside the window, those with most time of each place first.

    An operator is on the device if it launched something itself, on the host if it computed there; in a trace without a device every
    operator that computes is on the host. Views, allocations, collectives and the ranges around operators are in neither place.
    """
    rows = read_operators(timeline, callers or Callers(timeline))
    rows = rows.select("name", "types", "start_ns", "launches", "on_host", "device_self_ns", "host_self_ns")
    rows = in_window(rows, steps, host=True)
    without_device = timeline.count("device_events") == 0
    some = pl.concat([_placed(some, without_device=without_device) for some in slices(rows)])
    found = some.group_by("place", "precision").agg(pl.col("operators", "ns").sum())
    of_place = pl.col("ns").sum().over("place")
    found = found.with_columns(pl.when(of_place > 0).then(pl.col("ns") / of_place).otherwise(0.0).alias("share"))
    found = found.sort("place", -pl.col("ns"), "precision")
    return found.select(pl.col(column.name).cast(column.type) for column in PLACEMENT.columns)


def _placed(rows: pl.DataFrame, *, without_device: bool) -> pl.DataFrame:
    """How many operators of some calls are in each `place` and `precision`, and their time `ns`."""
    rows = rows.filter(~matches(rows["name"], COMMUNICATION))
    on_host = computes(rows["name"]) if without_device else rows["on_host"].fill_null(value=False)
    place = pl.when(pl.col("launches") > 0).then(pl.lit("device")).when(pl.lit(on_host)).then(pl.lit("host"))
    rows = rows.with_columns(place.alias("place"), precisions(rows["types"]).fill_null("unknown").alias("precision"))
    ns = pl.when(pl.col("place") == "device").then("device_self_ns").otherwise("host_self_ns")
    grouped = rows.filter(pl.col("place").is_not_null()).group_by("place", "precision")
    return grouped.agg(pl.len().cast(pl.Int64).alias("operators"), ns.sum().alias("ns"))
