"""How much of what happened this trace has whole, and what in it is doubtful: said before any verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from slowstep.analyses.device.clocks import REMEDY, Clocks, compare_clocks
from slowstep.analyses.events.device_work import busiest_device, device_work, launching_calls
from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import LAUNCHES_GRAPH, LAUNCHES_KERNEL, calls_of_runtime
from slowstep.analyses.steps.trace_steps import last_end_ns
from slowstep.health import Health, HealthKind
from slowstep.reasons import Reason, Value
from slowstep.timeline.timeline import Timeline

# Of the timeline.
TABLES: Final = frozenset({"device_events", "host_events", "marked_steps"})

_DIFFER: Final = f"{{differ}}; gaps shorter than the difference may be charged wrongly: {REMEDY}"
DEVICE_WORK_BEFORE_ITS_LAUNCH: Final = HealthKind("device-work-before-its-launch", "notice", _DIFFER)
CLOCKS_DIFFER: Final = HealthKind("clocks-differ", "notice", _DIFFER)
KERNELS_OVERLAP: Final = HealthKind(
    "kernels-overlap-on-a-stream",
    "notice",
    "kernels of one stream overlap, though it runs one after the other: the trace's device times are doubtful",
)
OTHER_DEVICES: Final = HealthKind(
    "other-devices-left-out",
    "notice",
    "the table shows device {device}, which has most kernel time; trace the others by themselves to see them",
)
KERNELS_AFTER_THE_LAST_STEP: Final = HealthKind(
    "kernels-after-the-last-step",
    "info",
    "device work that began after the device had ended the last marked step is in no step; call profiler.step() after every step",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Completeness:
    """How much of what happened the trace has, by what belongs together in it. None is unknown; shares are 0 to 1."""

    kernels: int
    kernels_with_launch: float | None  # share of the device's kernels whose launch is in the trace (graph launches count for all theirs)
    launches: int
    launches_with_kernel: float | None  # share of launches whose kernel is in the trace
    inside_steps: float | None  # share of the trace's whole time that lies inside the window's steps
    devices: int
    streams: int
    clocks_differ: Reason | None = None  # how the clocks of host and device differ; None where nothing shows that they do


def find_completeness(timeline: Timeline, steps: pl.DataFrame, clocks: Clocks | None = None) -> Completeness:
    """Of the trace's kernels, launches and time; shares are None where nothing is there that could be missing."""
    events = timeline.rows("device_events", "device", "stream", "kind", "correlation")
    kernels = events.filter(pl.col("kind") == "kernel").select("correlation")
    calls = launching_calls(timeline).select("correlation")
    launches = _launches(timeline)
    return Completeness(
        kernels=len(kernels),
        kernels_with_launch=_share(len(kernels.join(calls, on="correlation", how="semi")), len(kernels)),
        launches=len(launches),
        launches_with_kernel=_share(len(launches.join(kernels, on="correlation", how="semi")), len(launches)),
        inside_steps=_inside(timeline, steps),
        devices=events["device"].n_unique(),
        streams=events.select("device", "stream").n_unique() if len(events) else 0,
        clocks_differ=None if clocks is None else clocks.differ,
    )


def find_trace_doubts(timeline: Timeline) -> tuple[Health, ...]:
    """What makes the measurements of a trace doubtful: clocks that disagree, kernels that overlap on one stream, other devices; and
    what is in no step."""
    device = busiest_device(timeline)
    if device is None:
        return ()
    work = device_work(timeline, device)
    clocks = compare_clocks(timeline, device, work)
    wrong: dict[str, Value] = {"differ": clocks.differ or "the clocks of host and device differ"}
    ahead = int(clocks.differ is not None and not clocks.early)
    kernels = work.filter((pl.col("kind") == "kernel") & ~pl.col("from_graph")).sort("stream", "start_ns")
    overlapping = len(kernels.filter(pl.col("start_ns") < pl.col("end_ns").cum_max().shift(1).over("stream")))
    others = timeline.rows("device_events", "device")["device"].n_unique() - 1
    last_ns = last_end_ns(timeline, work)
    after = 0 if last_ns is None else len(work.filter((pl.col("start_ns") >= last_ns) & (pl.col("end_ns") > last_ns)))
    found: tuple[tuple[HealthKind, int, dict[str, Value]], ...] = (
        (DEVICE_WORK_BEFORE_ITS_LAUNCH, clocks.early, wrong),
        (CLOCKS_DIFFER, ahead, wrong),
        (KERNELS_OVERLAP, overlapping, {}),
        (OTHER_DEVICES, others, {"device": device}),
        (KERNELS_AFTER_THE_LAST_STEP, after, {}),
    )
    return tuple(kind(count, **values) for kind, count, values in found if count)


def _launches(timeline: Timeline) -> pl.DataFrame:
    calls = calls_of_runtime(timeline).filter(pl.col("correlation").is_not_null())
    launches = calls.filter(matches(calls["name"], f"{LAUNCHES_KERNEL}|{LAUNCHES_GRAPH}"))
    return launches.select("correlation").unique()


def _inside(timeline: Timeline, steps: pl.DataFrame) -> float | None:
    events = pl.concat([timeline.rows(name, "start_ns", "end_ns") for name in ("host_events", "device_events", "marked_steps")])
    if events.is_empty():
        return None
    whole = events.select(pl.col("end_ns").max() - pl.col("start_ns").min()).item()
    return _share(int((steps["end_ns"] - steps["start_ns"]).sum()), whole)


def _share(part: int, whole: int) -> float | None:
    return min(part / whole, 1.0) if whole > 0 else None
