"""The table `copies`: what was moved to, from and inside the device, how fast, and who waited."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from slowstep.analyses.device.waits import read_waits, waits_for_copies
from slowstep.analyses.events.device_work import work_kinds
from slowstep.analyses.events.tables import COPIES
from slowstep.analyses.events.unions import Union
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.steps.step_lookup import in_window, steps_at
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

KINDS = ("h2d", "d2h", "d2d", "p2p", "memset")
# What an instant of the device is charged to before a copy of this kind, by the ledger's order. Copies inside the device and memsets are
# compute there; exposed they are while no kernel computes.
COMPUTE = ("kernel", "d2d", "p2p", "memset")
HIGHER = {"h2d": (*COMPUTE, "collective"), "d2h": (*COMPUTE, "collective", "h2d")} | dict.fromkeys(("d2d", "p2p", "memset"), ("kernel",))
COLUMNS = ("device", "start_ns", "end_ns", "kind", "name", "collective", "bytes", "pageable")
PLACE = ["kind", "operator", "where"]
# From this size on it is the transfer that costs, and not the wait for it: at 12 GB/s (PCIe 3, 16 lanes) 1 MiB takes 87 us, more than
# the 20 to 40 us until a kernel that was launched begins (seed 002). What is smaller carries numbers, and no tensors.
LARGE_BYTES = 1 << 20


def find_copies(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table COPIES of the copies that begin inside the window, those with most exposed time first."""
    rows = in_window(read_copies(timeline, callers or Callers(timeline)), steps)
    # A copy belongs to the step that asked for it, though the device may come to it in another.
    asked = steps_at(steps, rows["call_start_ns"], host=True)
    rows = rows.with_columns(asked.zip_with(asked >= 0, rows["step"]).alias("step"))
    rows = rows.with_columns(_repeated(rows, steps.height).alias("repeated"))
    ns = pl.col("total_ns")
    grouped = rows.group_by(*PLACE, "pageable", "blocking", "repeated").agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("step").n_unique().cast(pl.Int64).alias("steps"),
        pl.when(pl.col("bytes").is_not_null().any()).then(pl.col("bytes").sum()).alias("bytes"),
        ns.sum(),
        pl.col("exposed_ns").sum(),
        (ns - pl.col("exposed_ns")).sum().alias("overlapped_ns"),
        (pl.col("bytes").sum() / pl.when(pl.col("bytes").is_not_null()).then(ns).sum()).alias("gb_per_s"),
    )
    speed = pl.when(pl.col("bytes").is_not_null() & pl.col("gb_per_s").is_finite()).then("gb_per_s").alias("gb_per_s")
    grouped = grouped.with_columns(speed).sort(-pl.col("exposed_ns"), -ns, *PLACE, "pageable", "blocking", "repeated")
    return grouped.select(pl.col(column.name).cast(column.type) for column in COPIES.columns)


def read_copies(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    """All copies and memsets: columns of `device_events`, those of `Callers.launched`, `total_ns`, `exposed_ns`, `blocking` and `run`.

    `run` is the number of kernels that its thread had launched before: copies with one number were launched with no kernel between them.
    """
    device = timeline.rows("device_events", *COLUMNS)
    kind = device["kind"].cast(pl.String)
    awaited = waits_for_copies(timeline, callers, read_waits(timeline, callers))
    rows = pl.concat([device, callers.launch_calls], how="horizontal").with_columns(
        kind.alias("kind"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("total_ns"),
        pl.Series("exposed_ns", _exposed(device, kind)),
        pl.Series("blocking", awaited >= 0),
    )
    before = (pl.col("kind") == "kernel").cast(pl.Int64).cum_sum().over("call_thread", order_by="call_start_ns")
    rows = rows.with_columns(before.alias("run")).filter(pl.col("kind").is_in(KINDS))
    return pl.concat([rows.with_columns(pl.col("call").cast(pl.String)), callers.describe(rows["span"].to_numpy())], how="horizontal")


def union_of(device: pl.DataFrame, work: pl.Series, kinds: Iterable[str]) -> Union:
    """When work of some kinds ran on each device."""
    rows = device.filter(work.is_in(list(kinds)))
    return Union(rows["device"].to_numpy(), rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _exposed(device: pl.DataFrame, kind: pl.Series) -> Ints:
    work = work_kinds(device)
    exposed = np.zeros(device.height, dtype=np.int64)
    for higher in set(HIGHER.values()):
        mine = np.flatnonzero(kind.is_in([name for name, above in HIGHER.items() if above == higher]).to_numpy())
        rows = device[mine]
        start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        exposed[mine] = np.maximum(end - start, 0) - union_of(device, work, higher).inside(rows["device"].to_numpy(), start, end)
    return exposed


def _repeated(rows: pl.DataFrame, steps: int) -> pl.Series:
    """Whether each copy is one that every step makes anew from the same place with the same bytes, and is not of the step's input.

    Traces do not say what is copied. For the input are taken the largest copy to the device of a step and those that were launched with it,
    no kernel between; what else is copied in every step is something that could have stayed there. Copies of other kinds carry results.
    """
    keys = [*PLACE, "bytes"]
    to_device = rows.filter((pl.col("kind") == "h2d") & (pl.col("bytes") > 0))
    if steps < 2 or to_device.is_empty():
        return pl.Series("repeated", [False] * rows.height, dtype=pl.Boolean)
    together = ["step", "call_thread", "run"]
    largest = to_device.sort("bytes", descending=True).unique("step", keep="first").select(together)
    of_input = to_device.join(largest, on=together, how="semi", nulls_equal=True).select(keys).unique()
    every = to_device.group_by(keys).agg(pl.col("step").n_unique().alias("in_steps")).filter(pl.col("in_steps") == steps)
    every = every.join(of_input, on=keys, how="anti", nulls_equal=True).select(*keys, pl.lit(value=True).alias("repeated"))
    joined = rows.select(keys).join(every, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined["repeated"].fill_null(value=False)
