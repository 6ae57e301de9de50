"""The trainings of one recording: the ranks of a job, or trainings that have nothing to do with each other, and which of them to show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import training_processes
from slowstep.timeline.timeline import ProcessFacts, Timeline

# A rank is called slower than another when being as fast would gain the job what the design calls a bottleneck (predicted >= 1.10): all
# wait for the slowest.
SLOWER_FROM = 1.10
# Neighbouring steps resemble each other (lag-1 autocorrelation 0.5 to 0.8, measured): so means of blocks are compared, as long as the
# stretches by which the design ends the warm-up.
BLOCK_STEPS = 10
CERTAIN = 2.0  # standard errors
# Of the difference, what the faster rank must be seen to wait: half leaves room for the estimate, and excludes ranks that share nothing.
WAITS_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class RankTraining:
    """One process that trains. `number` is its rank, or for a training of its own the next free number in the order of their starts."""

    number: int
    process: int
    facts: ProcessFacts
    steps: int

    @property
    def is_rank(self) -> bool:
        """Whether it is one of several ranks of a job."""
        return self.facts.rank is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSet:
    """Who trained and who was missing. All numbers of ranks are those of the job."""

    trainings: tuple[RankTraining, ...]
    repeated: int  # processes that were a rank before another took its place (a restarted job)
    missing: tuple[int, ...]  # ranks that should have been on this machine and were not recorded
    idle: tuple[int, ...]  # ranks that were recorded and never updated
    elsewhere: int  # ranks that other machines, or launchers of their own, have
    world_size: int


def collect_ranks(timeline: Timeline) -> RankSet:
    """Number the trainings of a recording, and find the ranks that are not among them."""
    updates = timeline.table("updates").group_by("process").len()
    steps = dict(zip(updates["process"].to_list(), updates["len"].to_list(), strict=True))
    training = training_processes(timeline)
    of_rank: dict[int, int] = {}
    for process in training:
        rank = timeline.processes[process].rank
        if rank is not None and steps[process] >= steps.get(of_rank.get(rank, -1), 0):
            of_rank[rank] = process
    alone = [process for process in training if timeline.processes[process].rank is None]
    following = max(of_rank, default=-1) + 1
    numbers = {process: rank for rank, process in of_rank.items()} | {process: following + i for i, process in enumerate(alone)}
    found = sorted(
        (RankTraining(number=n, process=p, facts=timeline.processes[p], steps=steps[p]) for p, n in numbers.items()), key=lambda t: t.number
    )
    members = [facts for facts in timeline.processes if facts.rank is not None and facts.role == "trainer"]
    world_size = max((facts.world_size or 1 for facts in members), default=1)
    seen = {facts.rank for facts in members if facts.rank is not None}
    here = _expected_here(timeline, members, world_size)
    return RankSet(
        trainings=tuple(found),
        repeated=len(training) - len(found),
        missing=tuple(sorted(here - seen)),
        idle=tuple(sorted(seen - set(of_rank))),
        elsewhere=world_size - len(here | seen),
        world_size=world_size,
    )


def _expected_here(timeline: Timeline, members: Sequence[ProcessFacts], world_size: int) -> set[int]:
    """The ranks that this launcher should have recorded."""
    if (timeline.run.launchers or 1) > 1 or not members:
        return set()
    local = max((facts.local_world_size or world_size for facts in members), default=world_size)
    lowest = min(facts.rank or 0 for facts in members)
    # Launchers of ranks number those of one machine one after the other.
    first = lowest - lowest % local
    return set(range(first, min(first + local, world_size)))


def first_shown(measured: Mapping[int, Measurements]) -> int:
    """Which training is shown first, by its number.

    Of a job, rank 0 (the lowest), unless another is clearly slower in its own work: all wait for that one. All steps of a job are equally
    long, so own work is the step without gradient sharing, where that was seen. Of trainings of their own, the one with most steps; of
    several with as many, the lowest, unless another's steps take clearly longer: that one has what the others have not.
    """
    ranks = [number for number, m in measured.items() if m.sharing.ranks > 1]
    if not ranks:
        most = max(m.steps.total for m in measured.values())
        step_ns = {number: float(m.step_ns.mean()) for number, m in measured.items() if m.steps.total == most}
        slowest = max(step_ns, key=lambda number: (step_ns[number], -number))
        return slowest if step_ns[slowest] >= SLOWER_FROM * step_ns[min(step_ns)] else min(step_ns)
    slower = measured[min(ranks)].sharing.slower
    return min(ranks) if slower is None else slower[0]


def compare(measured: Mapping[int, Measurements], missing: tuple[int, ...] = ()) -> dict[int, Measurements]:
    """The same measurements, each rank's with the rank that it clearly waits for, where own work was seen of both, and with those of its
    job that are `missing`.
    """
    measured = {n: m.changed(sharing=replace(m.sharing, missing=missing)) if m.sharing.ranks > 1 else m for n, m in measured.items()}
    # Of a rank with fewer steps nothing is certain, and it must not stand for the slowest.
    ranks = {n: m for n, m in measured.items() if m.sharing.ranks > 1 and m.sharing.seen and m.steps.count >= 2 * BLOCK_STEPS}
    if len(ranks) < 2:
        return dict(measured)
    slowest = max(ranks, key=lambda number: (float(ranks[number].sharing.own_ns.mean()), -number))
    slower = (slowest, float(ranks[slowest].sharing.own_ns.mean()))
    waiting = {number for number, m in ranks.items() if is_clearly_slower(ranks[slowest], m)}
    return {number: m.changed(sharing=replace(m.sharing, slower=slower)) if number in waiting else m for number, m in measured.items()}


def is_clearly_slower(m: Measurements, than: Measurements) -> bool:
    """Whether a rank's own work takes so much longer that the job would gain from it being as fast as another.

    With the time in which the ranks waited for a core and without it: who got fewer cores on a busy machine is not slow itself. For that
    reason chance is judged without it too.
    """
    step_ns = float(m.step_ns.mean())
    needed_ns = step_ns - step_ns / SLOWER_FROM
    own, other = m.sharing.own_ns, than.sharing.own_ns
    # In step with each other, the faster one waits for as long as it is faster.
    if float(than.step_ns.mean() - other.mean()) < WAITS_SHARE * float(own.mean() - other.mean()):
        return False
    if float(own.mean() - other.mean()) < needed_ns:
        return False
    return _surely_longer(own - m.machine.delay_ns, other - than.machine.delay_ns) >= needed_ns


def _surely_longer(ns: Floats, other_ns: Floats) -> float:
    """The difference of two means, less its uncertainty (two standard errors of the means of blocks)."""
    spread = sum(float(means.var(ddof=1)) / len(means) if len(means) > 1 else math.inf for means in map(_block_means, (ns, other_ns)))
    return float(ns.mean() - other_ns.mean()) - CERTAIN * math.sqrt(spread)


def _block_means(ns: Floats) -> Floats:
    blocks = len(ns) // BLOCK_STEPS
    return np.asarray(ns[: blocks * BLOCK_STEPS].reshape(blocks, BLOCK_STEPS).mean(axis=1)) if blocks else ns[:0]
