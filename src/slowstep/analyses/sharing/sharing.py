"""Gradient sharing on processors: what the training thread waits for other ranks, in collectives that it calls and inside backward.

Under DistributedDataParallel the gradients are shared by threads of the backend while the training thread blocks in backward. Blocked is
the wall time of a backward less the thread's CPU time and its run-queue delay (docs/definitions.md): an estimate, for a
backward may block for something else (its own helper threads where it has several, a page that must be read).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from slowstep.analyses.machine.load import Load
from slowstep.analyses.sharing.gradient_syncs import GradientSyncs, find_gradient_syncs
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints, covered_ns
from slowstep.timeline.timeline import Timeline

STAGE = "gradient_sharing"
# The same share of updates that decides which boundary holds for a run: a few backward passes may have been recorded without it.
SEEN_FROM = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRanks:
    """Ranks of a job that left no recording: the first of their numbers where they are very many, and how many there are."""

    numbers: tuple[int, ...] = ()
    count: int = 0


NONE_MISSING = MissingRanks()


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """One rank among the others of its job; `ranks` is 1 where there are no others."""

    rank: int | None
    ranks: int
    seen: bool  # what it waits for the others is measured
    own_ns: Floats  # per step, all but gradient sharing: its own work
    apart: bool = False  # the others are recorded by launchers of their own
    syncs: GradientSyncs | None = None  # which backward passes share gradients, where that is known
    missing: MissingRanks = NONE_MISSING


def find_sharing(
    timeline: Timeline, trainer: Trainer, steps: Steps, shared_ns: Floats, *, device: str, missing: MissingRanks = NONE_MISSING
) -> Sharing:
    """What is known of this rank's part in its job. `shared_ns` is what the ledger charges to gradient sharing, per step."""
    facts = trainer.facts
    low, high = int(steps.edges_ns[0]), int(steps.edges_ns[-1])
    window = pl.col("start_ns").is_between(low, high)
    backwards = trainer.backwards.filter(window).height
    measured = _rows(timeline, trainer).filter(window, pl.col("delay_ns").is_not_null()).height
    seen = device == "cpu" and measured > 0 and measured >= SEEN_FROM * backwards
    own = steps.duration_ns.astype(np.float64) - shared_ns
    apart = (timeline.run.launchers or 1) > 1
    syncs = find_gradient_syncs(timeline, trainer, steps) if (facts.world_size or 1) > 1 else None
    return Sharing(rank=facts.rank, ranks=facts.world_size or 1, seen=seen, own_ns=own, apart=apart, syncs=syncs, missing=missing)


def blocked_in_backward(timeline: Timeline, trainer: Trainer, edges_ns: Ints) -> Floats:
    """Time in which the training thread was blocked in backward, per stretch between `edges_ns`, outside of recorded collectives."""
    rows = _rows(timeline, trainer).filter(pl.col("delay_ns").is_not_null()).sort("start_ns")
    # Checkpointing runs a backward within a backward: the outer one holds the inner one's time.
    rows = rows.filter(rows["start_ns"] >= rows["end_ns"].cum_max().shift(1, fill_value=0))
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    blocked = (end - start - rows["cpu_ns"].to_numpy() - rows["delay_ns"].to_numpy()).astype(np.float64)
    blocked -= _in_collectives(trainer, start, end)
    count = len(edges_ns) - 1
    step = np.searchsorted(edges_ns, start, side="right") - 1
    inside = (step >= 0) & (step < count)
    return np.bincount(step[inside], weights=np.maximum(blocked, 0)[inside], minlength=count).astype(np.float64)


def concurrent_trainings(timeline: Timeline, process: int, start_ns: int, end_ns: int) -> int:
    """How many processes trained on this machine for at least half of a stretch, this one included."""
    others = timeline.table("updates").group_by("process").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    shared = pl.min_horizontal("end_ns", pl.lit(end_ns)) - pl.max_horizontal("start_ns", pl.lit(start_ns))
    beside = others.filter(pl.col("process") != process, shared * 2 >= end_ns - start_ns).height + 1
    # Under launchers of their own the others are not in this recording.
    local = timeline.processes[process].local_world_size if (timeline.run.launchers or 1) > 1 else None
    return max(beside, local or 1)


def load_among_launchers(timeline: Timeline, load: Load) -> Load:
    """Of several launchers, others may run on this machine: what their ranks use is not known to be foreign."""
    return replace(load, foreign_cores=None) if (timeline.run.launchers or 1) > 1 else load


def cores_of_one(timeline: Timeline, trainer: Trainer, cores: float | None, trainings: int) -> float | None:
    """Of the cores that a training may use, those that are left to it when others train beside it. None is unknown.

    Trainings that are bound to cores of their own (fewer than the launcher may use) keep those.
    """
    if cores is None or trainings < 2:
        return cores
    facts = trainer.facts
    limits = [limit for limit in (timeline.run.cores_allowed or facts.cores_allowed, facts.cpu_quota) if limit]
    return min([cores, *(limit / trainings for limit in limits)])


def _in_collectives(trainer: Trainer, start: Ints, end: Ints) -> Floats:
    """How much of each stretch lies in collectives that were recorded themselves."""
    spans = trainer.spans.filter(pl.col("kind") == "span", pl.col("stage") == STAGE).sort("start_ns")
    spans = spans.filter(spans["start_ns"] >= spans["end_ns"].cum_max().shift(1, fill_value=0))
    first, last = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    return np.asarray(covered_ns(first, last, end) - covered_ns(first, last, start))


def _rows(timeline: Timeline, trainer: Trainer) -> pl.DataFrame:
    return timeline.table("backward_cpu").filter(pl.col("process") == trainer.process, pl.col("thread") == trainer.thread)
