"""The table `operators`: what each framework operator took on the host and on the device."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.trace.callers import NAMED, Callers
from slowstep.analyses.trace.names import matches
from slowstep.analyses.trace.runtime_calls import LAUNCHES_WORK, calls_of_runtime
from slowstep.analyses.trace.tables import OPERATORS
from slowstep.analyses.trace.window import in_window
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# What computes nothing: views, shapes, allocation, copies that may turn out not to be needed, reading one number. Without one launch
# they have not computed on the host either.
COMPUTES_NOTHING = (
    r"^aten::(_?(unsafe_)?view(_as)?|_?reshape(_alias|_as)?|expand(_as)?|t|transpose|permute|slice|narrow|select|split(_with_sizes)?|"
    r"chunk|tensor_split|unbind|unflatten|flatten|squeeze|unsqueeze|as_strided|detach|alias|lift(_fresh)?|movedim|swapaxes|"
    r"diagonal|unfold|empty.*|new_empty.*|resize_.*|set_|result_type|is_\w+|item|_local_scalar_dense|contiguous|to|_to_copy|"
    r"type_as|record_stream|size|stride|numel|dim|requires_grad_|retain_grad|data|can_cast|_has_compatible.*|_version|"
    r"output_nr|_nested.*|_cudnn_init.*|_?use_cudnn.*|_fused_sdp_choice|(un)?flatten_dense_tensors|broadcast_tensors|dropout|"
    r"real|imag|conj|_conj|resolve_(conj|neg)|matrix_H|mT|mH|numpy_T|pin_memory|_pin_memory)_?$"
)
# Nodes of autograd, collectives and hooks are named like operators, but what they do is in the operators inside them.
NOT_OPERATORS = r"^(autograd|c10d|torch|profiler)::|Backward"


def find_operators(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table OPERATORS of those called inside the window, those with most device time, then most host time of their own, first."""
    rows = in_window(read_operators(timeline, callers or Callers(timeline)), steps, host=True)
    grouped = rows.group_by("name", "shapes", "where").agg(
        pl.col("types").first(),
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns").sum(),
        pl.col("launches").cast(pl.Int64).sum(),
        pl.col("on_host").any(ignore_nulls=False),
        pl.col("backward").any(),
    )
    grouped = grouped.with_columns(pl.col("name", "shapes", "types", "where").cast(pl.String)).sort(
        -pl.col("device_self_ns"), -pl.col("host_self_ns"), "name", "shapes", "where"
    )
    return grouped.select(pl.col(column.name).cast(column.type) for column in OPERATORS.columns)


def read_operators(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    """One row per call of an operator, with the columns of OPERATORS but `count`, and `start_ns`, `end_ns`, `thread`."""
    spans = callers.spans
    operator = (spans["kind"] == "operator").to_numpy()
    above = callers.innermost_operator(callers.nesting.parents)
    own = np.where(operator, (spans["end_ns"] - spans["start_ns"]).to_numpy(), 0)
    inside = operator & (above >= 0)
    inner = np.bincount(above[inside], weights=own[inside], minlength=spans.height).astype(np.int64)
    own_ns = np.maximum(own - inner, 0)
    del above, inside, inner
    device_self, launches = _device_work(timeline, callers)
    calls = callers.nesting.sums(_calls_that_launch(timeline, callers) + launches)
    found = spans.select("name", "shapes", "types", "thread", "start_ns", "end_ns").with_columns(
        callers.where.alias("where"),
        callers.backward,
        pl.Series("host_total_ns", own),
        pl.Series("host_self_ns", own_ns),
        pl.Series("device_total_ns", callers.nesting.sums(device_self)),
        pl.Series("device_self_ns", device_self),
        pl.Series("launches", launches, dtype=pl.Int32),
        pl.Series("calls", calls, dtype=pl.Int32),
    )
    found = found if bool(operator.all()) else found.filter(pl.Series(operator))
    return found.with_columns(_on_host(timeline, found))


def _device_work(timeline: Timeline, callers: Callers) -> tuple[Ints, Ints]:
    """Device time and number of device events that each span launched itself (innermost operators only), shape (n,) each."""
    device = timeline.table("device_events")
    span = callers.innermost_operator(callers.launch_calls["span"].to_numpy())
    known, count = span >= 0, callers.spans.height
    length = (device["end_ns"] - device["start_ns"]).to_numpy()
    time = np.bincount(span[known], weights=length[known], minlength=count).astype(np.int64)
    return time, np.bincount(span[known], minlength=count).astype(np.int64)


def _calls_that_launch(timeline: Timeline, callers: Callers) -> Ints:
    host = calls_of_runtime(timeline)
    host = host.filter(matches(host["name"], LAUNCHES_WORK))
    span = callers.innermost_operator(callers.indices_around(host["thread"], host["start_ns"]))
    return np.bincount(span[span >= 0], minlength=callers.spans.height).astype(np.int64)


def _on_host(timeline: Timeline, rows: pl.DataFrame) -> pl.Series:
    """Null where there is no device, or where the calls of the runtime are not in the trace."""
    has_calls = timeline.table("host_events")["kind"].is_in(["runtime", "driver"]).any()
    if timeline.table("device_events").is_empty() or not has_calls:
        return pl.Series("on_host", [None] * rows.height, dtype=pl.Boolean)
    return (computes(rows["name"]) & (rows["calls"] == 0)).alias("on_host")


def computes(names: pl.Series) -> pl.Series:
    """Whether operators of these names, shape (n,), compute something, by themselves or in operators that they call."""
    return matches(names, NAMED) & ~matches(names, NOT_OPERATORS) & ~matches(names, COMPUTES_NOTHING)
