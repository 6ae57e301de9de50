"""The machine beside the training, over the window: what was used of it, what held the training back. None is not measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import polars as pl

from slowstep.analyses.machine.devices import DeviceUse, find_devices
from slowstep.analyses.machine.memory import Memory, find_memory
from slowstep.analyses.machine.window import Window, rate
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.suspensions import Suspensions
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Throttling:
    """What a CPU quota did: share of its periods in which it was used up, and cores held back on average."""

    share: float
    cores: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Everything that was read beside the training, over the window."""

    tree_cores: float | None  # busy with the process tree of the training
    idle_cores: float | None  # of the machine, those that wait for storage included
    pressure: dict[str, float]  # share of the time in which some task of the machine stood still, by resource
    queueing: float | None  # threads of the process tree that stood in a queue for a core, on average
    throttling: Throttling | None  # None also where no quota is set
    quota_cores: float | None  # None also where no quota is set
    cores_at_start: int | None  # the most that the training process was seen to be allowed, usually when it began
    cores_now: int | None  # that its computing threads may use at the end of the window
    worker_cores: int | None  # the least that one of its loader's workers may use
    workers_cores: int | None  # that all of them may use together
    inherited_cores: int | None  # that the main thread of the training may use, and processes that it starts
    threads: int | None  # for one operation, per training process
    ranks: int  # training processes on this machine
    major_faults_per_s: float | None
    memory: Memory
    devices: tuple[DeviceUse, ...]  # those that the training computes on; empty where none is known


def find_machine(timeline: Timeline, trainer: Trainer, steps: Steps, suspensions: Suspensions, device: str) -> Machine:
    """Measure the machine over the window of `steps`, less `suspensions`; `device` is what the training computes on."""
    window = Window(low_ns=int(steps.edges_ns[0]), high_ns=int(steps.edges_ns[-1]), suspensions=suspensions)
    idle, storage = (rate(timeline.table("machine_times"), name, window) for name in ("idle_ns", "storage_ns"))
    faults = rate(timeline.table("tree_faults"), "major", window)
    affinities = timeline.table("affinities").filter(pl.col("time_ns") <= window.high_ns).sort("time_ns")
    return Machine(
        tree_cores=rate(timeline.table("readings"), "tree_cpu_ns", window),
        idle_cores=None if idle is None or storage is None else idle + storage,
        pressure=_pressure(timeline.table("pressures"), window),
        queueing=rate(timeline.table("run_delays"), "delay_ns", window),
        throttling=_throttling(timeline.table("throttles"), window),
        quota_cores=_quota(timeline, trainer, window),
        cores_at_start=_most_cores(affinities, trainer.facts.pid),
        cores_now=_cores_of(affinities, [trainer.facts.pid]),
        worker_cores=_cores_of(affinities, _workers(timeline)),
        workers_cores=_together(affinities, _workers(timeline)),
        inherited_cores=_cores_of(affinities, [trainer.facts.pid], "main_cores"),
        threads=trainer.facts.threads,
        ranks=max(timeline.table("updates")["process"].n_unique(), 1),
        major_faults_per_s=None if faults is None else faults * 1e9,
        memory=find_memory(timeline, trainer, window),
        devices=() if device == "cpu" else find_devices(timeline, window),
    )


def _pressure(readings: pl.DataFrame, window: Window) -> dict[str, float]:
    names = readings["resource"].unique().sort().to_list()
    shares = {name: rate(readings.filter(pl.col("resource") == name), "some_ns", window) for name in names}
    return {name: min(share, 1.0) for name, share in shares.items() if share is not None}


def _throttling(readings: pl.DataFrame, window: Window) -> Throttling | None:
    periods, throttled, cores = (rate(readings, name, window) for name in ("periods", "throttled", "throttled_ns"))
    if periods is None or throttled is None or cores is None:
        return None
    # Periods are counted only while something runs; none is none used up.
    return Throttling(share=min(throttled / periods, 1.0) if periods else 0.0, cores=cores)


def _quota(timeline: Timeline, trainer: Trainer, window: Window) -> float | None:
    """As read last in the window; what the training process saw at its start where it was not read."""
    changes = timeline.table("quotas").filter(pl.col("time_ns") <= window.high_ns).sort("time_ns")
    return trainer.facts.cpu_quota if changes.is_empty() else changes["cores"][-1]


def _cores_of(affinities: pl.DataFrame, pids: list[int], column: str = "cores") -> int | None:
    """The least of the cores that these processes may use, as read last; None where they were not looked at."""
    last = affinities.filter(pl.col("pid").is_in(pids)).group_by("pid").agg(pl.col(column).last())
    return None if last.is_empty() else int(last[column].min())  # type: ignore[arg-type]


def _together(affinities: pl.DataFrame, pids: list[int]) -> int | None:
    """How many cores these processes may use together, as read last; None where it is not known which each may use."""
    last = affinities.filter(pl.col("pid").is_in(pids)).group_by("pid").agg(pl.col("which").last())
    which = last["which"].to_list()
    return None if not which or 0 in which else reduce(or_, which).bit_count()


def _most_cores(affinities: pl.DataFrame, pid: int) -> int | None:
    # What the process says of itself it says once it trains: libraries may have bound it by then.
    most = affinities.filter(pl.col("pid") == pid)["cores"].max()
    return int(most) if isinstance(most, int) else None


def _workers(timeline: Timeline) -> list[int]:
    return [int(pid) for pid in timeline.table("processes").filter(pl.col("role") == "worker")["pid"].to_list()]
