"""Producers: what making one batch took, and whose fetch each wait waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.made_here import made_here
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.python.garbage import collected_ns
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.suspensions import Suspensions
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Flags, Ints, covered_ns
from slowstep.timeline.timeline import Timeline

# Parts of a wait, with the stage each is charged to (docs/definitions.md, "A wait for input"): those of making a batch first.
_STAGE_OF_MAKING = {
    PartKind.SAMPLES: "preprocess",
    PartKind.COLLATE: "preprocess",
    PartKind.PRODUCER_COLLECTION: "preprocess",
    PartKind.PRODUCER_CORE_WAIT: "preprocess",
    PartKind.LOCK_WAIT: "preprocess",
    PartKind.STORAGE: "read",
    PartKind.BLOCKED: "read",
}
PART_STAGE = _STAGE_OF_MAKING | {
    PartKind.TRANSPORT: "preprocess",
    # On the training thread: without workers all before the fetch, else told from transport by stacks (analyses/batches/sampler.py).
    PartKind.SAMPLER: "preprocess",
    PartKind.LOADER_START: "preprocess",
    # What of a request is neither fetch nor drawing, where the training thread makes its own batches: nothing is transported there.
    PartKind.LOADER_OVERHEAD: "preprocess",
    # All of it, where it is not known what the producer did.
    PartKind.INPUT_WAIT: "preprocess",
}
# Where each stands among the columns of a wait.
COLUMN_OF = {kind: column for column, kind in enumerate(PART_STAGE)}
# Parts of `read` and `preprocess` that are a loader's: of its waits, and its end.
OF_LOADER = frozenset((*PART_STAGE, PartKind.LOADER_END))
# What a producer's account is made of, and what of a wait another set-up of producers could remove.
ACCOUNT = tuple(_STAGE_OF_MAKING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetches:
    """The fetches that feed the training.

    `account` has a row per fetch and a column per kind in ACCOUNT, in ns; rows sum to what making the batch took. Garbage that the training
    thread collects meanwhile is no part of that: it would do so wherever batches are made.
    """

    start_ns: Ints
    end_ns: Ints
    process: Ints
    batch: Ints
    account: Floats
    cpu_ns: Floats
    other_cpu_ns: Floats
    collate_ns: Floats  # without the garbage collected in it
    batch_bytes: Floats
    samples: Floats
    profiled: NDArray[np.bool_]  # calls were timed in it: it took longer than it would have

    @property
    def wall_ns(self) -> Floats:
        """What making each batch took."""
        return np.asarray(self.account.sum(axis=1))


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitParts:
    """The division of each wait. `parts` has a row per wait, a column per kind in PART_STAGE, ns, of which those in ACCOUNT come first.

    Rows sum to the wait's length, less the garbage that the waiting thread itself collected in it.
    """

    start_ns: Ints
    end_ns: Ints
    parts: Floats
    matched: NDArray[np.bool_]  # whether the fetch that it waited for is known
    first: NDArray[np.bool_]  # the first of its iterator: nothing could be made ahead
    fetch: Ints  # the fetch that it waited for, -1 where none is known
    is_own: NDArray[np.bool_]  # the waiting thread itself made the batch
    held_ns: float = 0.0  # of all of them, charged to making because the worker that was to hand the batch over computed (transfer.py)


def worker_processes(timeline: Timeline, trainer: Trainer, iterators: Sequence[int]) -> list[int]:
    """The processes in which the workers of some of the training's iterators ran."""
    rows = timeline.table("iterators").filter(pl.col("process") == trainer.process, pl.col("iterator").is_in(list(iterators)))
    pids = {int(pid) for pids in rows["workers"].to_list() for pid in pids}
    return timeline.table("processes").filter(pl.col("pid").is_in(list(pids)), pl.col("role") == "worker")["process"].to_list()


def find_fetches(timeline: Timeline, trainer: Trainer, suspensions: Suspensions, stacks: Stacks) -> Fetches:
    """The fetches of the training's loaders: its workers' and, without workers, the training thread's own, which has these `stacks`.

    What was being made while the training was stopped is no measure of making: producers are stopped with it.
    """
    iterators = trainer.waits["iterator"].unique().to_list()
    workers = worker_processes(timeline, trainer, iterators)
    own = (
        (pl.col("process") == trainer.process)
        & (pl.col("thread") == trainer.thread)
        & (pl.col("iterator").is_in(iterators) | pl.col("iterator").is_null())
    )
    every = timeline.table("fetches").filter(~pl.col("failed"))
    fetches = pl.concat([every.filter(pl.col("process").is_in(workers)), made_here(every.filter(own), stacks)]).sort("process", "start_ns")
    for start, end in zip(suspensions.start_ns.tolist(), suspensions.end_ns.tolist(), strict=True):
        fetches = fetches.filter((pl.col("end_ns") <= start) | (pl.col("start_ns") >= end))
    collates = timeline.table("collates").filter(pl.col("process").is_in([*workers, trainer.process])).sort("process", "start_ns")
    return _accounts(
        fetches.with_columns(collected_ns=collected_ns(timeline, fetches)),
        collates.with_columns(collected_ns=collected_ns(timeline, collates)),
        trainer.process,
    )


def _accounts(fetches: pl.DataFrame, collates: pl.DataFrame, trainer: int) -> Fetches:
    start, end = fetches["start_ns"].to_numpy(), fetches["end_ns"].to_numpy()
    process = fetches["process"].to_numpy().astype(np.int64)
    collected = fetches["collected_ns"].to_numpy()
    wall = (end - start) - collected
    used, queued = fetches["cpu_ns"].to_numpy().astype(np.float64), fetches["delay_ns"].fill_null(0).to_numpy().astype(np.float64)
    # A collection computes, and is held up by others as the rest of the fetch is: it takes its share of both with it.
    kept = 1 - np.minimum(collected / np.maximum(used + np.maximum(queued, 0), 1), 1)
    cpu = np.clip(used * kept, 0, wall)
    delay = np.clip(queued * kept, 0, wall - cpu)
    other = np.maximum(fetches["other_cpu_ns"].fill_null(0).to_numpy().astype(np.float64), 0)
    collate_wall, collate_cpu, batch_bytes = _collates(start, end, process, collates)
    blocked = wall - cpu - delay
    lock = np.minimum(blocked, other)
    storage = np.where(fetches["storage_bytes"].fill_null(0).to_numpy() > 0, blocked - lock, 0.0)
    collated = np.clip(collate_cpu, 0, cpu)
    in_worker = np.where(process == trainer, 0.0, collected)
    account = {
        PartKind.SAMPLES: cpu - collated,
        PartKind.COLLATE: collated,
        PartKind.PRODUCER_COLLECTION: in_worker,
        PartKind.PRODUCER_CORE_WAIT: delay,
        PartKind.LOCK_WAIT: lock,
        PartKind.STORAGE: storage,
        PartKind.BLOCKED: blocked - lock - storage,
    }
    return Fetches(
        start_ns=start,
        end_ns=end,
        process=process,
        batch=fetches["batch"].to_numpy(),
        account=np.column_stack([account[kind] for kind in ACCOUNT]),
        cpu_ns=cpu + in_worker,
        other_cpu_ns=other,
        collate_ns=collate_wall,
        batch_bytes=batch_bytes,
        samples=fetches["samples"].cast(pl.Float64).to_numpy(),
        profiled=fetches["profiled"].to_numpy(),
    )


def _collates(start: Ints, end: Ints, process: Ints, collates: pl.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Wall and CPU time of the collate inside each fetch, without collected garbage, and the bytes that it made (NaN unknown)."""
    wall, cpu, size = np.zeros(len(start)), np.zeros(len(start)), np.full(len(start), np.nan)
    for p in np.unique(process).tolist():
        own = np.flatnonzero(process == p)
        rows = collates.filter(pl.col("process") == p)
        at = np.searchsorted(start[own], rows["start_ns"].to_numpy(), side="right") - 1
        inside = (at >= 0) & (rows["end_ns"].to_numpy() <= end[own][at])
        to = own[at[inside]]
        np.add.at(wall, to, (rows["end_ns"] - rows["start_ns"] - rows["collected_ns"]).to_numpy()[inside])
        np.add.at(cpu, to, (rows["cpu_ns"] - rows["collected_ns"]).clip(lower_bound=0).to_numpy()[inside])
        size[to] = rows["bytes"].cast(pl.Float64).to_numpy()[inside]
    return wall, cpu, size


def divide_waits(timeline: Timeline, trainer: Trainer, fetches: Fetches) -> WaitParts:
    """Divide each successful wait of the training by the account of the producer of its batch."""
    waits = trainer.waits.filter(GAVE_BATCH)
    start, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
    which = _fetch_of_wait(timeline, trainer, waits, fetches)
    matched = which >= 0
    parts = np.zeros((len(start), len(PART_STAGE)))
    is_own = matched & (fetches.process[which] == trainer.process) if len(fetches.process) else matched
    f0, f1 = _made_between(start, end, fetches, which, is_own)

    def waited(first: Ints, last: Ints) -> Floats:
        """Of each wait's time between two instants, what is left without the garbage that the waiting thread collected."""
        last = np.maximum(first, last)
        return (last - first) - collected_ns(timeline, waits.with_columns(start_ns=pl.Series(first), end_ns=pl.Series(last)))

    inside = waited(np.maximum(start, f0), np.minimum(end, f1))
    before = waited(start, np.minimum(f0, end))
    busy = np.minimum(busy_between(fetches, which, start, np.minimum(f0, end)), before)
    parts[:, : len(ACCOUNT)] = _by_account(fetches, which, inside, busy)
    first = _first_of_iterator(waits)
    rest = waited(start, end) - parts.sum(axis=1)
    _divide_rest(parts, rest, np.maximum(before - busy, 0), first=first, matched=matched, is_own=is_own)
    return WaitParts(start_ns=start, end_ns=end, parts=parts, matched=matched, first=first, fetch=which, is_own=is_own)


def _divide_rest(parts: Floats, rest: Floats, idle: Floats, *, first: Flags, matched: Flags, is_own: Flags) -> None:
    """Write into `parts` what no producer's account has of each wait: `rest`, of which `idle` before anything was done for it."""
    started = np.where(first & ~is_own, idle, 0)
    # Who makes its own batches has nothing else to do before it begins, be it the first: a sampler may draw a whole epoch's indices then.
    drawn = np.where(is_own, idle, 0)
    parts[:, COLUMN_OF[PartKind.LOADER_START]], parts[:, COLUMN_OF[PartKind.SAMPLER]] = started, drawn
    left = np.maximum(rest - started - drawn, 0)
    for kind, mine in {
        PartKind.TRANSPORT: matched & ~is_own,
        PartKind.LOADER_OVERHEAD: is_own,
        PartKind.INPUT_WAIT: ~matched,
    }.items():
        parts[:, COLUMN_OF[kind]] = np.where(mine, left, 0)


def _made_between(start: Ints, end: Ints, fetches: Fetches, which: Ints, is_own: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """When the batch of each wait from `start` to `end` was begun and made; at its start where it is not known."""
    matched = which >= 0
    first = np.where(matched, fetches.start_ns[which] if len(fetches.start_ns) else start, start)
    last = np.where(matched, fetches.end_ns[which] if len(fetches.end_ns) else start, start)
    # The training process records its tiny fetches only now and then: a wait without one of its own was spent like the one before.
    before = is_own & (last <= start)
    return np.where(before, start, first), np.where(before, end, last)


def _fetch_of_wait(timeline: Timeline, trainer: Trainer, waits: pl.DataFrame, fetches: Fetches) -> Ints:
    """For each wait, the index of the fetch that made its batch; -1 where none is known."""
    which = np.full(waits.height, -1, dtype=np.int64)
    if not len(fetches.start_ns):
        return which
    pids = timeline.table("processes").filter(pl.col("role") == "worker")
    by_pid = dict(zip(pids["pid"].to_list(), pids["process"].to_list(), strict=True))
    rows = timeline.table("iterators").filter(pl.col("process") == trainer.process)
    producers = {
        i: [by_pid.get(pid, -1) for pid in ids] or [trainer.process]
        for i, ids in zip(rows["iterator"].to_list(), rows["workers"].to_list(), strict=True)
    }
    iterator, batch, end = waits["iterator"].to_numpy(), waits["batch"].to_numpy(), waits["end_ns"].to_numpy()
    for i in np.unique(iterator).tolist():
        own = np.flatnonzero(iterator == i)
        made = np.flatnonzero(np.isin(fetches.process, producers.get(i, [trainer.process])))
        if len(made):
            which[own] = _latest_match(batch[own], end[own], fetches, made, serial=producers.get(i) == [trainer.process])
    return which


def _latest_match(batch: Ints, end: Ints, fetches: Fetches, made: NDArray[Any], *, serial: bool) -> Ints:
    """Of the fetches `made` of the same batch index, the latest that ended before the wait did (indices start anew each epoch)."""
    made = made[np.argsort(fetches.end_ns[made], kind="stable")]
    at = np.searchsorted(fetches.end_ns[made], end, side="right")
    if serial:
        return np.where(at > 0, made[np.maximum(at - 1, 0)], -1)
    latest: dict[int, list[int]] = {}
    for index in made.tolist():
        latest.setdefault(int(fetches.batch[index]), []).append(index)
    found = np.full(len(batch), -1, dtype=np.int64)
    for k, (b, stop) in enumerate(zip(batch.tolist(), end.tolist(), strict=True)):
        for index in reversed(latest.get(b, ())):
            if fetches.end_ns[index] <= stop:
                found[k] = index
                break
    return found


def busy_between(fetches: Fetches, which: Ints, start: Ints, until: Ints) -> Floats:
    """How long the producer of each wait's batch (`which` fetch made it, -1 unknown) was making other batches between two instants."""
    busy = np.zeros(len(which))
    for p in np.unique(fetches.process).tolist():
        own = fetches.process == p
        waits = np.flatnonzero((which >= 0) & (fetches.process[which] == p)) if len(which) else np.zeros(0, dtype=np.int64)
        if len(waits):
            starts, ends = fetches.start_ns[own], fetches.end_ns[own]
            busy[waits] = covered_ns(starts, ends, until[waits]) - covered_ns(starts, ends, start[waits])
    return np.maximum(busy, 0)


def _by_account(fetches: Fetches, which: Ints, inside: Floats, busy: Floats) -> Floats:
    """What a producer's account says of each wait: of the time `inside` the making of its batch that of this batch, of the time in which
    the producer was `busy` with others before it that of all. Shape (waits, accounts).
    """
    if not len(fetches.start_ns):
        return np.zeros((len(which), len(ACCOUNT)))
    share = fetches.account[which] / np.maximum(fetches.wall_ns[which], 1)[:, None]
    return np.asarray(share * np.where(which >= 0, inside, 0)[:, None] + _mix(fetches)[None, :] * busy[:, None])


def _mix(fetches: Fetches) -> Floats:
    """The mean account of all fetches as shares of their wall time."""
    total = fetches.account.sum(axis=0) if len(fetches.account) else np.zeros(len(ACCOUNT))
    whole = total.sum()
    return total / whole if whole > 0 else total


def _first_of_iterator(waits: pl.DataFrame) -> NDArray[np.bool_]:
    return waits.select((pl.col("batch") == 0) | ~pl.col("iterator").is_duplicated())["batch"].to_numpy()
