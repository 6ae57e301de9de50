"""The device of a trace that shows nothing of its work, as far as the host's calls tell when it worked.

A call that gives it work bounds when that begins, and one that waits for the whole device when it ended: from its return to the next call
that gives work the device surely idles. One that waits for a stream tells only that the device worked meanwhile: the trace does not say for
which stream, and others may go on. All else is not known. A trace without such calls tells nothing of the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.names import host_names, matches
from slowstep.analyses.events.runtime_calls import COPIES_AND_WAITS, LAUNCHES_GRAPH, LAUNCHES_KERNEL, LAUNCHES_WORK, calls_of_runtime
from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.intervals import Ints
from slowstep.timeline.probes import Issued, Probes, seen_by_probes
from slowstep.timeline.spine import NO_STRETCHES, NONE, DeviceIntervals
from slowstep.timeline.timeline import Timeline

# The most that is assumed to lie between a call and the begin of its work on an idle device, and between the end of what a call waits for
# and its return: ten times and more what is usual of both.
LATENCY_NS: Final = 100_000
RETURN_NS: Final = 100_000
# These wait for all that was issued.
WAITS_FOR_ALL: Final = r"^(cuda|hip)(Device|Thread)Synchronize|^(cu|hip)CtxSynchronize"
# These wait for a stream. The wait for an event does for what lies before that, and an allocation need not wait.
WAITS_FOR_STREAM: Final = rf"^(cuda|cu|hip)StreamSynchronize|{COPIES_AND_WAITS}"


def works_unseen(timeline: Timeline) -> bool:
    """Whether a trace without device events is of a training on a device all the same: the host launches, or has operators of a device."""
    if matches(calls_of_runtime(timeline)["name"], f"{LAUNCHES_KERNEL}|{LAUNCHES_GRAPH}").any():
        return True
    return bool(host_names(timeline, ["operator", "annotation"])["text"].str.contains(events(Event.ON_DEVICE)).any())


def seen_from_host(timeline: Timeline) -> DeviceIntervals:
    """When the device of such a trace worked, within bounds. What is issued is taken to be done in its order."""
    waits = synchronizing_calls(timeline)
    waits = waits.filter(pl.col("name").str.contains(f"{WAITS_FOR_ALL}|{WAITS_FOR_STREAM}"))
    issued = _issued(timeline, waits)
    device = seen_by_probes(issued, _told_by_waits(waits, issued.returned_ns), LATENCY_NS)
    # Work that is issued by no call of the trace may be anywhere.
    return device if len(issued.first_ns) else replace(device, complete=NO_STRETCHES)


def _issued(timeline: Timeline, waits: pl.DataFrame) -> Issued:
    """What the host issued, with what one thread issues within the latency of one launch, and no wait in between, as one: when each of it
    begins is known no better, and a trace has a hundred thousand launches.
    """
    calls = calls_of_runtime(timeline).select("start_ns", "end_ns", "name", thread=pl.col("thread").cast(pl.Int64).fill_null(NONE))
    calls = calls.filter(matches(calls["name"], LAUNCHES_WORK)).sort("start_ns", "end_ns")
    edges = np.sort(np.concatenate((waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy())))
    between = pl.Series(np.searchsorted(edges, calls["start_ns"].to_numpy(), side="right"))
    groups = (
        calls.group_by(pl.struct(pl.col("start_ns") // LATENCY_NS, "thread", between.alias("between")).rle_id(), maintain_order=True)
        .agg(pl.col("thread").first(), first=pl.col("start_ns").min(), last=pl.col("start_ns").max(), returned=pl.col("end_ns").max())
        .select("first", "last", "returned", "thread")
    )
    first, last, returned, thread = (column.to_numpy() for column in groups)
    return Issued(first_ns=first, last_ns=last, returned_ns=returned, thread=thread)


def _told_by_waits(waits: pl.DataFrame, returned_ns: Ints) -> Probes:
    """What calls that wait tell of the work, which was issued by calls that returned at these times."""
    start, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
    # What another thread is just issuing need not be waited for; a copy that waits is work too, and waits for itself.
    until = np.where(waits["name"].str.contains(COPIES_AND_WAITS).to_numpy(), end, start)
    work = np.searchsorted(np.maximum.accumulate(returned_ns), until, side="right") - 1
    issued = work >= 0
    # It had ended while the host still stood in the call.
    done = issued & waits["name"].str.contains(WAITS_FOR_ALL).to_numpy()
    # Whichever stream had work left: the device was not idle.
    waited = issued & (end - start > 2 * RETURN_NS)
    at = np.concatenate((end[done] - 1, end[waited] - RETURN_NS))
    return Probes(at_ns=at, work=np.concatenate((work[done], work[waited])), ended=np.arange(len(at)) < np.count_nonzero(done))
