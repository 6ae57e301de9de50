"""What the producers of batches ask for per step; of loaders that are read together, what that one asks for which is waited for most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.batches.producers import ACCOUNT, Fetches, worker_processes
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.parts import PartKind
from slowstep.timeline.intervals import overlap_ns, union
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What producers need per step. None is unknown.

    Where the loader that is waited for most has workers, all but `cpu_ns` is its own: other loaders' workers make none of its batches.
    """

    workers: int
    wall_ns: float | None  # a producer's busy time per step, all producers added
    cpu_ns: float | None  # their CPU time per step, of all loaders
    collate_ns: float | None
    batch_bytes: float | None
    idle_share: float | None  # share of the workers' time with nothing to make
    blocked_share: float | None  # share of the fetches' wall time that is neither CPU nor queueing
    collecting_ns: float | None = None  # of `wall_ns`, in which the loader's workers collected garbage
    queued_ns: float = 0.0  # of `wall_ns`, in which producers waited for a core
    batches: float = 1.0  # per step
    others_cpu_ns: float = 0.0  # of `cpu_ns`, what other loaders' workers need
    between_batches_ns: float = 0.0  # of the workers' time per step, in which they neither make batches nor wait to be told what to make
    others_ns: float = 0.0  # how long the workers of the slowest other loader take for its batches of a step


@dataclass(frozen=True, kw_only=True, slots=True)
class _Producers:
    """Those whose demand it is: their iterators (None: all), how many workers at once, and the processes that these are."""

    iterators: Sequence[int] | None
    workers: int
    processes: Sequence[int]


def find_demand(timeline: Timeline, trainer: Trainer, fetches: Fetches, steps: Steps, loader: Loader | None) -> Demand:
    """Producers' needs per step, from the fetches inside the window."""
    low, high = int(steps.edges_ns[0]), int(steps.edges_ns[-1])
    inside = (fetches.start_ns >= low) & (fetches.end_ns <= high)
    inside = inside & ~fetches.profiled if (inside & ~fetches.profiled).any() else inside
    if loader is not None and loader.other_loaders and loader.num_workers:

        def of(iterators: tuple[int, ...], workers: int) -> Demand:
            processes = worker_processes(timeline, trainer, iterators)
            return _demand(timeline, trainer, fetches, inside, steps, _Producers(iterators=iterators, workers=workers, processes=processes))

        own = of(loader.iterators, loader.num_workers)
        return _with_other_loaders(own, [of(other.iterators, other.num_workers) for other in loader.other_loaders if other.num_workers])
    every = trainer.waits["iterator"].unique().to_list()
    rows = timeline.table("iterators").filter(pl.col("process") == trainer.process, pl.col("iterator").is_in(every))
    workers = int(rows["num_workers"].max() or 0) if rows.height else 0  # type: ignore[arg-type]
    producers = _Producers(iterators=None, workers=workers, processes=np.unique(fetches.process).tolist())
    return _demand(timeline, trainer, fetches, inside, steps, producers)


def producers_of(timeline: Timeline, trainer: Trainer, fetches: Fetches, loader: Loader | None) -> list[int]:
    """The processes that make batches: of loaders that are read together, those of the one that is waited for most, where it has some."""
    every: list[int] = np.unique(fetches.process).tolist()
    if loader is None or not loader.other_loaders or not loader.num_workers:
        return every
    return sorted(set(every) & set(worker_processes(timeline, trainer, loader.iterators))) or every


def _with_other_loaders(own: Demand, others: Sequence[Demand]) -> Demand:
    """The demand of one loader, with what those that are read beside it need for themselves."""
    if own.cpu_ns is None:
        return own
    cpu_ns = sum(other.cpu_ns or 0.0 for other in others)
    slowest = max(((other.wall_ns or 0.0) / other.workers for other in others), default=0.0)
    return replace(own, cpu_ns=own.cpu_ns + cpu_ns, others_cpu_ns=cpu_ns, others_ns=slowest)


def _demand(
    timeline: Timeline, trainer: Trainer, fetches: Fetches, inside: NDArray[np.bool_], steps: Steps, producers: _Producers
) -> Demand:
    workers, own = producers.workers, inside & np.isin(fetches.process, producers.processes)
    if not own.any():
        return Demand(workers=workers, wall_ns=None, cpu_ns=None, collate_ns=None, batch_bytes=None, idle_share=None, blocked_share=None)
    low, high = int(steps.edges_ns[0]), int(steps.edges_ns[-1])
    batches = _batches(trainer, producers.iterators, low, high) / steps.count
    made = fetches.account[own].sum(axis=0)
    account = dict(zip(ACCOUNT, made.tolist(), strict=True))
    known = fetches.batch_bytes[own]
    return Demand(
        workers=workers,
        wall_ns=float(fetches.wall_ns[own].mean()) * batches,
        cpu_ns=float((fetches.cpu_ns + np.minimum(fetches.other_cpu_ns, fetches.wall_ns))[own].mean()) * batches,
        collate_ns=float(fetches.collate_ns[own].mean()) * batches,
        batch_bytes=float(np.nanmean(known)) if np.isfinite(known).any() else None,
        idle_share=_idle_share(timeline, producers.processes, low, high, workers),
        between_batches_ns=0.0 if workers == 0 else _between_ns(timeline, fetches, producers.processes, low, high) / steps.count,
        blocked_share=(account[PartKind.STORAGE] + account[PartKind.BLOCKED]) / max(float(made.sum()), 1.0),
        collecting_ns=account[PartKind.PRODUCER_COLLECTION] / int(own.sum()) * batches,
        queued_ns=account[PartKind.PRODUCER_CORE_WAIT] / int(own.sum()) * batches,
        batches=batches,
    )


def _batches(trainer: Trainer, iterators: Sequence[int] | None, low: int, high: int) -> int:
    """How many were received in the window."""
    got = trainer.waits.filter(GAVE_BATCH, pl.col("start_ns") >= low, pl.col("start_ns") < high)
    return got.height if iterators is None else got.filter(pl.col("iterator").is_in(list(iterators))).height


def _between_ns(timeline: Timeline, fetches: Fetches, processes: Sequence[int], low: int, high: int) -> float:
    """In the window, in which processes neither made batches nor waited to be told what to make, while each did one or the other before and
    after: what starts and ends take is none of it.
    """
    idles = timeline.table("idles")
    whole = 0.0
    for process in processes:
        mine, made = idles.filter(pl.col("process") == process), fetches.process == process
        start = np.concatenate((mine["start_ns"].to_numpy(), fetches.start_ns[made]))
        end = np.concatenate((mine["end_ns"].to_numpy(), fetches.end_ns[made]))
        if len(start):
            lived = min(int(end.max()), high) - max(int(start.min()), low)
            busy = overlap_ns(*union(start, end), np.int64(low), np.int64(high)).sum()  # type: ignore[arg-type]
            whole += max(lived - float(busy), 0.0)
    return whole


def _idle_share(timeline: Timeline, processes: Sequence[int], low: int, high: int, workers: int) -> float | None:
    """Share of the workers' time in the window that they waited to be told what to make; None without workers, or time."""
    if workers == 0 or high <= low:
        return None
    idles = timeline.table("idles").filter(pl.col("process").is_in(list(processes)))
    idle = overlap_ns(idles["start_ns"].to_numpy(), idles["end_ns"].to_numpy(), np.int64(low), np.int64(high)).sum()  # type: ignore[arg-type]
    return min(float(idle) / ((high - low) * workers), 1.0)
