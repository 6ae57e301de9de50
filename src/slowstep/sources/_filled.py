"""Frames of whatever columns become declared tables of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from slowstep.health import Health, HealthKind
from slowstep.timeline.intervals import Ints
from slowstep.timeline.schema import TABLE

EVENTS_WITHOUT_TIMES: Final = HealthKind(
    "events-without-times",
    "data_loss",
    "their times are missing, end before they begin or years after it; they are left out: record again if there are many",
)
CLOCKS_APART: Final = HealthKind(
    "clocks-apart",
    "error",
    "host and device events never overlap, so their clocks differ: nothing that joins the two can be trusted; record again",
)
WORK_BEFORE_ITS_LAUNCH: Final = HealthKind(
    "work-before-its-launch",
    "notice",
    "the clocks of host and device differ, so short gaps and launch delays are doubtful; record again with a newer profiler",
)
# 2001 to 2096, ns since 1970. Clocks that count from a machine's start are years away from it.
EARLIEST_NS: Final = 10**18
LATEST_NS: Final = 4 * 10**18
# A year. No profiler records for as long.
LONGEST_NS: Final = 31_557_600 * 10**9


def filled(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with exactly the declared columns: null where it lacks one, or where a value does not fit into the type."""
    columns = [
        (pl.col(column.name) if column.name in frame.columns else pl.lit(None)).cast(column.type, strict=False).alias(column.name)
        for column in TABLE[name].columns
    ]
    return frame.select(columns)


def timed(frame: pl.DataFrame, least_ns: int = 1) -> tuple[pl.DataFrame, int]:
    """The rows that begin at `least_ns` or later, do not end before that, nor years after it; and how many others there were.

    A profiler whose clock began long before the recording writes 0 where a time was not measured.
    """
    # Both ends lie within 63 bits, and `end_ns` first: the difference of others could overflow.
    ends = (pl.col("end_ns") >= pl.col("start_ns")) & (pl.col("end_ns") - pl.col("start_ns") <= LONGEST_NS)
    sane = frame.filter((pl.col("start_ns") >= least_ns) & ends)
    return sane, len(frame) - len(sane)


def clock_of(tables: Mapping[str, pl.DataFrame], first_ns: int) -> tuple[int, int] | None:
    """When a trace begins and ends by the clock of the day, whose tables count from `first_ns`; None where that is some other clock's."""
    ends = [int(table["end_ns"].max()) for name in ("host_events", "device_events") if len(table := tables[name])]  # type: ignore[arg-type]
    return (first_ns, first_ns + max(ends)) if ends and EARLIEST_NS <= first_ns <= LATEST_NS else None


def recorded_kinds(tables: Mapping[str, pl.DataFrame]) -> frozenset[str]:
    """What of a training the profiler recorded (`TraceFacts.recorded`), as far as the kinds of its events tell."""
    host = tables["host_events"]
    kinds = set(host["kind"].unique().to_list())
    found = {
        "operators": "operator" in kinds,
        "runtime": bool(kinds & {"runtime", "driver"}),
        "device": len(tables["device_events"]) > 0,
        "shapes": host["shapes"].null_count() < len(host),
        "python": "python" in kinds,
        "annotations": "annotation" in kinds,
    }
    return frozenset(name for name, is_there in found.items() if is_there)


def time_doubts(count: int) -> list[Health]:
    """What is said of rows that `timed` left out."""
    return [EVENTS_WITHOUT_TIMES(count)] if count else []


def clock_doubts(host: pl.DataFrame, device: pl.DataFrame) -> list[Health]:
    """What says that host and device do not share a clock: they never overlap, or work runs before the call that launched it."""
    if len(host) and len(device) and _disjoint(host, device):
        return [CLOCKS_APART(1)]
    early = _before_their_launch(host, device)
    return [WORK_BEFORE_ITS_LAUNCH(early)] if early else []


def _before_their_launch(host: pl.DataFrame, device: pl.DataFrame) -> int:
    """How many device events begin before the first call with their number does. By sorted arrays: of millions of calls a join would take
    several times the memory.
    """
    numbers, called_ns = _known(host)
    asked, start_ns = _known(device)
    if not len(numbers):
        return 0
    order = np.lexsort((called_ns, numbers))
    numbers, called_ns = numbers[order], called_ns[order]
    at = np.minimum(np.searchsorted(numbers, asked), len(numbers) - 1)
    return int(((numbers[at] == asked) & (start_ns < called_ns[at])).sum())


def _known(events: pl.DataFrame) -> tuple[Ints, Ints]:
    """Correlation and begin of the events that have one."""
    rows = events.select("correlation", "start_ns").drop_nulls("correlation")
    return rows["correlation"].to_numpy(), rows["start_ns"].to_numpy()


def _disjoint(host: pl.DataFrame, device: pl.DataFrame) -> bool:
    spans = [frame.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0) for frame in (host, device)]
    (first, last), (other_first, other_last) = spans
    return bool(last < other_first or other_last < first)
