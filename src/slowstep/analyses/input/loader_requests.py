"""The requests for the next batch that a trace shows, and how long the device stood still for each (table `loader`)."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import INPUT_WAIT, is_part
from slowstep.analyses.events.tables import LOADER
from slowstep.analyses.events.training_thread import training_thread
from slowstep.analyses.ledger.stage_ranges import told_ranges
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.intervals import containing, covered_ns, union
from slowstep.timeline.timeline import Timeline

# How profilers write a Python function.
FUNCTION: Final = r"\.py\(\d+\): "


def find_requests(timeline: Timeline, steps: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The training thread's input waits that begin in a step of the window (by the host's clock); of waits inside each other the outermost.

    Without a device there are no gaps, and the whole wait is exposed: the training thread does nothing else meanwhile.
    """
    thread = training_thread(timeline)
    if thread is None:
        return LOADER.empty()
    ranges = told_ranges(timeline).filter(is_part(INPUT_WAIT) & (pl.col("thread") == thread))
    ranges = ranges.drop("name").rename({"range": "name"}).sort("start_ns", "end_ns", descending=[False, True])
    reach = pl.col("end_ns").cum_max().shift(1)
    waits = _named_by_loader(ranges.filter(reach.is_null() | (pl.col("start_ns") >= reach)), ranges)
    start, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
    if not timeline.count("device_events"):
        exposed = end - start
    else:
        idle = union(gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy())
        exposed = np.rint(covered_ns(*idle, end) - covered_ns(*idle, start)).astype(np.int64)
    first, last = steps["host_start_ns"].to_numpy(), steps["host_end_ns"].to_numpy()
    # What lies between two marks belongs to the step that comes before.
    last = np.append(np.maximum(last[:-1], first[1:]), last[-1:])
    step = containing(first, last, start)
    rows = waits.with_columns(pl.Series("step", step), pl.Series("exposed_ns", exposed)).filter(pl.col("step") >= 0)
    return rows.select(pl.col(column.name).cast(column.type) for column in LOADER.columns)


def _named_by_loader(waits: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """The waits, called as the loader's own range inside them is: with stacks the outermost is a Python function, which tells no kind."""
    is_own = pl.col("name").cast(pl.String).str.contains(events(Event.LOADER_REQUEST))
    own = ranges.filter(is_own).select("start_ns", pl.col("name").alias("own"))
    named = own.sort("start_ns").join_asof(waits.select("start_ns", "end_ns", at="start_ns").sort("start_ns"), on="start_ns")
    first = named.filter(pl.col("start_ns") < pl.col("end_ns")).group_by("at").agg(pl.col("own").first())
    joined = waits.join(first, left_on="start_ns", right_on="at", how="left", maintain_order="left")
    outermost, inside = pl.col("name").cast(pl.String), pl.col("own").cast(pl.String)
    name = pl.when(outermost.str.contains(FUNCTION)).then(pl.coalesce(inside, outermost)).otherwise(outermost)
    return joined.with_columns(name.alias("name")).drop("own")
