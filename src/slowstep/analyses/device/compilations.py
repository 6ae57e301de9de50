"""The table `compilations`: where inside the steps something was compiled, and what the device lacked meanwhile."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.device.charged import charged
from slowstep.analyses.events.names import host_named, host_names
from slowstep.analyses.events.tables import COMPILATIONS
from slowstep.analyses.python.callers import Callers
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.intervals import Ints, pieces
from slowstep.timeline.timeline import Timeline, found_once

# Compilers of kernels, as functions of theirs.
KERNEL_COMPILERS: Final = r"triton/compiler/compiler\.py\S* compile$|numba/core/dispatcher\.py\S* compile$"
# Code that was compiled for the device while the program ran (Triton, NVRTC) is loaded by these; kernels that lie in a library are not.
LOADS: Final = r"^cu(Module|Library)LoadData|^cuLinkComplete|^cudaLibraryLoadData|^hipModuleLoadData"
RANGE_KINDS: Final = ("operator", "annotation")
CALL_KINDS: Final = ("runtime", "driver")


@found_once
def compiling(timeline: Timeline) -> pl.DataFrame:
    """The stretches in which host threads compiled: `thread`, `start_ns`, `end_ns`, `name`; of those in one another only the outermost."""
    names = host_names(timeline)
    functions = f"{KERNEL_COMPILERS}|{events(Event.COMPILATION_FUNCTION, Event.BUILD_FUNCTION)}"
    compiles = (
        (pl.col("kind").is_in(RANGE_KINDS) & pl.col("text").str.contains(events(Event.COMPILATION)))
        | ((pl.col("kind") == "python") & pl.col("text").str.contains(functions))
        | (pl.col("kind").is_in(CALL_KINDS) & pl.col("text").str.contains(LOADS))
    )
    rows = host_named(timeline, names.filter(compiles)).select("thread", "start_ns", "end_ns", name="text")
    rows = rows.sort("thread", "start_ns", "end_ns", "name", descending=[False, False, True, False])
    reach = pl.col("end_ns").cum_max().shift(1).over("thread")
    return rows.filter(reach.is_null() | (pl.col("end_ns") > reach))


def find_compilations(timeline: Timeline, steps: pl.DataFrame, gaps: pl.DataFrame, callers: Callers | None = None) -> pl.DataFrame:
    """The table COMPILATIONS of the window; `gaps` is the table GAPS.

    With a device a step is the device's, and what counts is the time that the device lacked; without one all of it counts.
    """
    found = compiling(timeline)
    if found.is_empty() or steps.is_empty():
        return COMPILATIONS.empty()
    rows = pl.concat([_within(steps, of_thread) for of_thread in found.partition_by("thread")])
    around = (callers or Callers(timeline)).around(rows["thread"], rows["start_ns"])
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    exposed, part = charged(start, end, gaps)
    if not timeline.count("device_events"):
        exposed = end - start
    rows = pl.concat([rows.with_columns(around["where"], pl.Series("exposed_ns", exposed)), part], how="horizontal")
    return rows.sort("start_ns", "thread").select(pl.col(column.name).cast(column.type) for column in COMPILATIONS.columns)


def _within(steps: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The stretches of one thread cut at the bounds of steps, with the step of each piece; what lies in none is dropped."""
    low, high = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    start, end = _disjoint(rows)
    of, begin, finish = pieces(start, end, np.concatenate((low, high)))
    step = np.searchsorted(low, begin, side="right") - 1
    inside = (step >= 0) & (begin < high[step])
    kept = rows[of[inside]].with_columns(pl.Series("start_ns", begin[inside]), pl.Series("end_ns", finish[inside]))
    return kept.with_columns(steps["step"].gather(step[inside]).alias("step"))


def _disjoint(rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """Starts and ends of ranges that may overlap without nesting (a damaged trace): each ends where the next begins."""
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    return start, np.minimum(end, np.append(start[1:], np.iinfo(np.int64).max))
