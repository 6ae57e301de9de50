"""The ledger of a trace: each step's time divided among the eight stages, exactly, and the device's gaps (table `gaps`).

An instant belongs to the first of these that runs on any stream of the device: compute kernel, copy within the device, filling of memory,
collective, copy to the device, copy from it. What is left is idle, and goes to the cause of the gap (`idle.py`). Of several devices the
one with most kernel time is judged. Which of the device's work is known its coverage says: where that is not exact, as much is charged as
the host's calls tell of it (`seen_from_host.py`), within bounds; and where they tell of no device, the training thread
(`lane_without_device.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.device_work import busiest_device, device_work
from slowstep.analyses.events.parts import COLLECTIVES, COPIES, DEVICE_COPIES, KERNELS, MEMSETS, rows_of
from slowstep.analyses.events.tables import GAPS
from slowstep.analyses.events.unions import edges_of
from slowstep.analyses.ledger.charge import DEVICE, Charged, charge, charged_ledger, in_steps, worked
from slowstep.analyses.ledger.gap_rows import Causes, gap_rows
from slowstep.analyses.ledger.lane_without_device import training_lane
from slowstep.analyses.ledger.lanes_beside_device import TraceLanes
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.seen_from_host import seen_from_host, works_unseen
from slowstep.analyses.python.callers import Callers
from slowstep.parts import DEVICE_WORK, Part
from slowstep.timeline.clocks import DeviceClock, on_host
from slowstep.timeline.coverage import CoverageLevel
from slowstep.timeline.intervals import Ints
from slowstep.timeline.spine import NEVER, NONE, DeviceIntervals, KnownLanes
from slowstep.timeline.timeline import Timeline

# Highest rank first: what runs beside something of higher rank is overlapped, and costs the step nothing.
RANKS: Final = (
    (("kernel",), KERNELS),
    (("d2d", "p2p"), DEVICE_COPIES),
    (("memset",), MEMSETS),
    (("collective",), COLLECTIVES),
    (("h2d",), COPIES["h2d"]),
    (("d2h",), COPIES["d2h"]),
)
RANK_OF: Final = {kind: rank for rank, (kinds, _) in enumerate(RANKS) for kind in kinds}


def build_trace_ledger(
    timeline: Timeline, steps: pl.DataFrame, callers: Callers | None = None, *, clock: DeviceClock | None = None
) -> tuple[Ledger, pl.DataFrame]:
    """The ledger of the steps and the table `gaps`. Empty without steps.

    `callers`: those of the timeline, where they were made already. `clock`: that of the device, where it is not the host's; the ledger has
    the bounds of its offset, the table the device's own times.
    """
    if steps.is_empty():
        return Ledger(parts=(), ns=np.zeros((0, 0))), GAPS.empty()
    device = seen_device(timeline)
    if device is None and not works_unseen(timeline):
        charged, parts = charge_host(timeline, steps)
        return charged_ledger(charged, lambda codes: parts[codes], steps.height), GAPS.empty()
    callers = Callers(timeline) if callers is None else callers
    if device is None:
        charged, parts_of = charge_unseen(timeline, steps, callers)
        return charged_ledger(charged, parts_of, steps.height), GAPS.empty()
    lanes, work = TraceLanes(timeline), work_of(timeline, device)
    charged, idle = charge(edges_of(steps), lanes, work)
    causes = Causes(lanes, callers, idle["cause"].to_numpy())
    gaps = gap_rows(timeline, idle, steps, causes, callers)
    if clock is not None:
        charged, idle = charge(edges_of(steps), lanes, on_host(work, clock))
        causes = Causes(lanes, callers, idle["cause"].to_numpy())
    parts_of = partial(_parts, causes, [part for _, part in RANKS])
    return charged_ledger(charged, parts_of, steps.height), gaps


def seen_device(timeline: Timeline) -> int | None:
    """The device that is judged, where all that it did is known: what has no row was idle. Else None."""
    return busiest_device(timeline) if timeline.level("device") is CoverageLevel.EXACT else None


def charge_host(timeline: Timeline, steps: pl.DataFrame) -> tuple[Charged, pl.DataFrame]:
    """What the training thread of a trace without a device did in the steps, and the part of each code."""
    lane, parts = training_lane(timeline, *edges_of(steps))
    return charge(edges_of(steps), KnownLanes(training=lane.thread, lanes={lane.thread: lane}))[0], parts


def charge_unseen(timeline: Timeline, steps: pl.DataFrame, callers: Callers) -> tuple[Charged, Callable[[Ints], pl.DataFrame]]:
    """What the steps of a trace without its device's work may be charged to, and what gives the parts of codes that are in order."""
    lanes = TraceLanes(timeline)
    charged, idle = charge(edges_of(steps), lanes, seen_from_host(timeline))
    return charged, partial(_parts, Causes(lanes, callers, idle["cause"].to_numpy()), [DEVICE_WORK])


def busy_stretches(timeline: Timeline, device: int, steps: pl.DataFrame) -> pl.DataFrame:
    """The stretches of the steps in which the device worked, by what ran then: `start_ns`, `end_ns` and the part."""
    charged = in_steps(edges_of(steps), worked(work_of(timeline, device).ordered()))
    return pl.concat([charged.times, rows_of(part for _, part in RANKS)[DEVICE - charged.code]], how="horizontal")


def work_of(timeline: Timeline, device: int) -> DeviceIntervals:
    """What the device of a trace worked on: all of it, exactly."""
    work = device_work(timeline, device)
    rank = pl.col("kind").replace_strict(RANK_OF, return_dtype=pl.Int64)
    columns = work.select(
        "start_ns",
        "end_ns",
        rank=rank,
        thread=pl.col("launch_thread").cast(pl.Int64).fill_null(NONE),
        dispatched_ns=pl.col("launch_end_ns").fill_null(NEVER),
    )
    return DeviceIntervals.exact(**{name: column.to_numpy() for name, column in columns.to_dict().items()}, ranks=len(RANKS))


def _parts(causes: Causes, worked_on: list[Part], codes: Ints) -> pl.DataFrame:
    """The part of each code, which are in order; `worked_on`: of what the device did, by its rank."""
    ranks = DEVICE - codes[codes <= DEVICE]
    return pl.concat([rows_of(worked_on[rank] for rank in ranks.tolist()), causes.parts(codes[codes > DEVICE])])
