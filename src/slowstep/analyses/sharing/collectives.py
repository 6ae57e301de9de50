"""The table `collectives`: what the ranks sent to one another, how fast, and how much of it the device's own work hid.

Bus bandwidth is that of NCCL's tests (nccl-tests, doc/PERFORMANCE.md): bytes by time, times a factor by which the result can be held
against the link's speed whatever the number of ranks. The time holds the waiting for the other ranks too, so that it is a lower bound.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.device.copies import COMPUTE, union_of
from slowstep.analyses.events.device_work import work_kinds
from slowstep.analyses.events.enclosing import Nesting
from slowstep.analyses.events.names import matches
from slowstep.analyses.events.tables import COLLECTIVES
from slowstep.analyses.events.unions import Union
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.steps.step_lookup import in_window
from slowstep.timeline.element_types import element_bytes
from slowstep.timeline.intervals import Ints
from slowstep.timeline.shapes import elements_of, read_shapes, read_types
from slowstep.timeline.timeline import Timeline

# Of PyTorch's names (`nccl:_all_gather_base`), of NCCL's kernels (`ncclDevKernel_AllGather_RING_LL`) and of XLA's (`all-gather`). DeepEP
# sends tokens to the ranks of their experts and back.
OPERATIONS: Final = (
    ("reduce_scatter", r"(?i)reduce_?-?scatter"),
    ("all_reduce", r"(?i)all_?-?reduce|cross_device_reduce"),
    ("all_gather", r"(?i)all_?-?gather"),
    ("all_to_all", r"(?i)all_?-?to_?-?all|deep_ep::\w+::\w*(dispatch|combine)"),
    ("broadcast", r"(?i)broadcast"),
    ("send_recv", r"(?i)send|recv|collective-permute"),
    ("barrier", r"(?i)barrier"),
)
COLUMNS: Final = ("device", "start_ns", "end_ns", "kind", "name", "collective", "bytes", "group_size")
# Of a thousand terabytes no step hands over more; what says so is damaged, and sums of it would not fit into 64 bits.
MOST_BYTES: Final = 2**50
RANGE: Final = r"(?i)^(nccl|rccl|gloo|mpi|ucc):"
LIBRARIES: Final = (
    ("gloo", r"(?i)^gloo"),
    ("xla", r"^(all|reduce|collective)-"),
    ("deepep", r"deep_ep::"),
    ("nccl", r"(?i)nccl|^msccl"),
    ("rccl", r"(?i)rccl"),
)


def find_collectives(timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table COLLECTIVES of those that begin inside the window, those with most exposed time first."""
    found = read_collectives(timeline, callers or Callers(timeline))
    ran_on_host = pl.col("on_host")
    rows = pl.concat([in_window(found.filter(~ran_on_host), steps), in_window(found.filter(ran_on_host), steps, host=True)])
    ns = pl.col("end_ns") - pl.col("start_ns")
    keys = ["operation", "library", "name", "bytes", "group_size"]
    grouped = rows.group_by(keys).agg(pl.len().cast(pl.Int64).alias("count"), ns.sum().alias("total_ns"), pl.col("exposed_ns").sum())
    total = pl.col("total_ns")
    speed = pl.when(total > 0).then(pl.col("bytes") * pl.col("count") / total * _factor())
    grouped = grouped.with_columns((total - pl.col("exposed_ns")).alias("overlapped_ns"), speed.alias("bus_gb_per_s"))
    grouped = grouped.sort(-pl.col("exposed_ns"), -total, *keys)
    return grouped.select(pl.col(column.name).cast(column.type) for column in COLLECTIVES.columns)


def read_collectives(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    """One row per collective, of the device or, where its library works on the host, of the host.

    Columns: `start_ns`, `end_ns`, `operation`, `library`, `name`, `bytes`, `group_size`, `on_host`, and `exposed_ns`: while no compute of
    the device ran; of one on the host in a trace without a device, while no operator ran on another thread.
    """
    vendor = timeline.trace.vendor if timeline.trace else None
    columns = ["start_ns", "end_ns", "operation", "library", "name", "bytes", "group_size", "exposed_ns", "on_host"]
    on_device = _of_device(timeline, callers).with_columns(pl.lit(value=False).alias("on_host"))
    found = pl.concat([on_device, _of_host(timeline).with_columns(pl.lit(value=True).alias("on_host"))], how="vertical")
    library = _first(pl.col("name"), LIBRARIES).fill_null("other")
    # AMD's library keeps the kernel names of the one that it descends from.
    library = pl.when((library == "nccl") & (pl.lit(vendor) == "amd")).then(pl.lit("rccl")).otherwise(library)
    return found.with_columns(library.alias("library")).select(columns)


def _of_device(timeline: Timeline, callers: Callers) -> pl.DataFrame:
    device = timeline.rows("device_events", *COLUMNS)
    work = work_kinds(device)
    mine = (work == "collective").to_numpy()
    rows = device.filter(pl.Series(mine)).with_columns(pl.col("name", "collective").cast(pl.String))
    start, end, key = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), rows["device"].to_numpy()
    hidden = union_of(device, work, COMPUTE).inside(key, start, end)
    around = _ranges_around(timeline, callers.launch_calls.filter(pl.Series(mine)))
    rows = pl.concat([rows.drop("kind"), around], how="horizontal")
    operation = pl.coalesce(*(_first(pl.col(name), OPERATIONS) for name in ("collective", "range", "name"))).fill_null("other")
    return rows.select(
        "start_ns",
        "end_ns",
        operation.alias("operation"),
        "name",
        pl.coalesce("bytes", "range_bytes").alias("bytes"),
        "group_size",
        pl.Series("exposed_ns", np.maximum(end - start, 0) - hidden),
    )


def _ranges(timeline: Timeline) -> pl.DataFrame:
    host = timeline.rows("host_events", "thread", "start_ns", "end_ns", "name", "shapes", "types", kinds=["annotation", "operator"])
    host = host.filter(matches(host["name"], RANGE)).with_columns(pl.col("name", "shapes", "types").cast(pl.String))
    known = host.select("shapes", "types").unique()
    sizes = [input_bytes(shapes, types) for shapes, types in known.iter_rows()]
    known = known.with_columns(pl.Series("range_bytes", sizes, dtype=pl.Int64))
    return host.join(known, on=["shapes", "types"], how="left", nulls_equal=True, maintain_order="left")


def _ranges_around(timeline: Timeline, launched: pl.DataFrame) -> pl.DataFrame:
    """`range` and `range_bytes` of the range that a framework named around each launch, null where there is none."""
    ranges = _ranges(timeline)
    nesting = Nesting(ranges["thread"].to_numpy(), ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy())
    threads, times = launched["call_thread"].fill_null(-1).to_numpy(), launched["call_start_ns"].fill_null(0).to_numpy()
    index = pl.Series(np.where(launched["call_thread"].is_not_null(), nesting.innermost(threads, times), -1))
    chosen = ranges.select(pl.col("name").alias("range"), "range_bytes")
    return chosen.select(pl.all().gather(index.set(index < 0, None))) if chosen.height else chosen.clear(len(index))


def _of_host(timeline: Timeline) -> pl.DataFrame:
    """Collectives of libraries that work on the host: their ranges are the work itself, not the launch of a kernel."""
    rows = _ranges(timeline).filter(~pl.col("name").str.contains(r"(?i)^[nr]ccl"))
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    if timeline.count("device_events"):
        device = timeline.rows("device_events", "start_ns", "end_ns", "kind", "name", "collective")
        computing = device.filter(work_kinds(device).is_in(list(COMPUTE)))
        hidden = _over_all(computing).inside(np.zeros(rows.height, dtype=np.int64), start, end)
    else:
        operators = timeline.rows("host_events", "thread", "start_ns", "end_ns", "name", kinds=["operator"])
        operators = operators.filter(~matches(operators["name"], RANGE))
        hidden = _on_other_threads(operators, rows)
    operation = _first(pl.col("name"), OPERATIONS).fill_null("other")
    exposed = pl.Series("exposed_ns", np.maximum(end - start, 0) - hidden)
    size = pl.lit(None, pl.Int32).alias("group_size")
    return rows.select("start_ns", "end_ns", operation.alias("operation"), "name", pl.col("range_bytes").alias("bytes"), size, exposed)


def _over_all(rows: pl.DataFrame) -> Union:
    return Union(np.zeros(rows.height, dtype=np.int64), rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _on_other_threads(operators: pl.DataFrame, rows: pl.DataFrame) -> Ints:
    hidden = np.zeros(rows.height, dtype=np.int64)
    for thread in rows["thread"].unique().to_list():
        mine = (rows["thread"] == thread).to_numpy()
        start, end = rows["start_ns"].to_numpy()[mine], rows["end_ns"].to_numpy()[mine]
        hidden[mine] = _over_all(operators.filter(pl.col("thread") != thread)).inside(np.zeros(len(start), dtype=np.int64), start, end)
    return hidden


def input_bytes(shapes: str | None, types: str | None) -> int | None:
    """Bytes of all inputs of a range, from their shapes and element types as in the trace; None where these do not tell."""
    sides, kinds = read_shapes(shapes), read_types(types)
    if sides is None or kinds is None or len(sides) != len(kinds):
        return None
    tensors = [(elements_of(shape), element_bytes(kind)) for shape, kind in zip(sides, kinds, strict=True) if shape]
    known = [elements * size for elements, size in tensors if elements is not None and size is not None]
    return sum(known) if tensors and len(known) == len(tensors) and sum(known) <= MOST_BYTES else None


def _factor() -> pl.Expr:
    ranks = pl.col("group_size")
    share = (ranks - 1) / ranks
    operation = pl.col("operation")
    # Of an all_gather the tests count the bytes of its output, which is the input of every rank.
    twice = pl.when(operation == "all_reduce").then(2 * share).when(operation == "all_gather").then(ranks * share)
    once = twice.when(operation.is_in(["reduce_scatter", "all_to_all"])).then(share)
    return once.when(operation.is_in(["broadcast", "send_recv"])).then(1.0)


def _first(text: pl.Expr, patterns: tuple[tuple[str, str], ...]) -> pl.Expr:
    return pl.coalesce(pl.when(text.str.contains(pattern)).then(pl.lit(value)) for value, pattern in patterns)
