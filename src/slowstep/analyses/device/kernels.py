"""The table `kernels`: what each kernel did to the device's time, in which precision, on which cores, for whom."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.device.precision import precisions
from slowstep.analyses.device.tensor_cores import add_why_not, has_tensor_cores
from slowstep.analyses.events.kernel_class import classify
from slowstep.analyses.events.tables import KERNELS
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.steps.step_lookup import in_window
from slowstep.timeline.timeline import Timeline

# What Tensor Cores were made for; whether they are used elsewhere is told, but nobody needs to change it.
MADE_FOR = ("matmul", "convolution")
SITE = ["name", "operator", "innermost", "where", "shapes", "types", "outer_shapes"]


def find_kernels(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table KERNELS of the kernels that begin inside the window, those with most time first."""
    kernels = in_window(read_kernels(timeline, callers or Callers(timeline)), steps)
    if kernels.is_empty():
        return KERNELS.empty()
    # Grouped by categories: the texts of all kernels would be many times as long as the rest of them.
    sites = kernels.group_by(SITE).agg(pl.col("ns").sum()).with_columns(pl.col(SITE).cast(pl.String))
    sites = _classified(timeline, sites)
    by_name = kernels.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("ns").sum().alias("total_ns"),
        pl.col("ns").median().alias("median_ns"),
        pl.col("ns").quantile(0.05, "linear").alias("p05_ns"),
        pl.col("ns").quantile(0.95, "linear").alias("p95_ns"),
        pl.col("delay_ns").median().alias("launch_delay_ns"),
        pl.col("occupancy").cast(pl.Float64).median(),
        (pl.col("module").sort_by("ns").last() if "module" in kernels.columns else pl.lit(None, pl.Categorical)).alias("module"),
    )
    by_name = by_name.with_columns(pl.col("name", "module").cast(pl.String))
    # A place that is known tells more than one that is not, though some of a kernel's launches may be missing in the trace.
    order = [pl.col("operator").is_null(), -pl.col("ns"), *SITE]
    main = sites.sort(order).unique("name", keep="first", maintain_order=True)
    rows = by_name.join(main, on="name").with_columns((pl.col("total_ns") / max(by_name["total_ns"].sum(), 1)).alias("share"))
    rows = rows.with_columns(pl.coalesce("outer_shapes", "shapes").alias("shapes")).sort("total_ns", "name", descending=[True, False])
    return rows.select(pl.col(column.name).cast(column.type) for column in KERNELS.columns)


def read_kernels(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    """All kernels with what launched them: some columns of `device_events`, `call_end_ns`, those of `Callers.categories`, and

    `ns`, their length; `delay_ns`, from the end of the launch call to the start, 0 where they began earlier, null where the launch is
    not in the trace or was that of a graph; `shapes` and `types` of the innermost operator, `outer_shapes` of the one in `operator`.
    """
    events = timeline.rows("device_events", "name", "kind", "start_ns", "end_ns", "occupancy", "from_graph")
    rows = np.flatnonzero((events["kind"] == "kernel").to_numpy())
    calls = callers.launch_calls.select("span", "call_end_ns")[rows]
    span = calls["span"].to_numpy()
    modules = callers.modules(span)
    named = [] if modules is None else [modules.to_frame()]
    kernels = pl.concat([events[rows], calls.drop("span"), callers.categories(span), callers.inputs(span), *named], how="horizontal")
    wait = (pl.col("start_ns") - pl.col("call_end_ns")).clip(lower_bound=0)
    return kernels.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
        pl.when(~pl.col("from_graph")).then(wait).alias("delay_ns"),
    )


def _classified(timeline: Timeline, sites: pl.DataFrame) -> pl.DataFrame:
    sites = pl.concat([sites, classify(sites["name"])], how="horizontal")
    device = timeline.table("trace_devices").head(1).to_dicts()
    name, capability = (device[0]["name"], device[0]["compute_capability"]) if device else (None, None)
    vendor = timeline.trace.vendor if timeline.trace else None
    cores = has_tensor_cores(vendor, name, capability, bool(sites["tensor_core"].any()))
    of_inputs = precisions(sites["types"])
    if vendor != "amd":
        # NVIDIA's Tensor Cores take no float32: what runs on them is TF32. AMD's matrix cores do.
        of_inputs = of_inputs.set(of_inputs.eq("float32") & sites["tensor_core"].fill_null(value=False), "tf32")
    eligible = pl.when(pl.col("class").is_in(MADE_FOR)).then(pl.lit(cores, pl.Boolean)).otherwise(False)
    sites = sites.with_columns(pl.coalesce("precision", of_inputs.alias("of_inputs")).alias("precision"), eligible.alias("eligible"))
    return add_why_not(sites, capability, vendor)
