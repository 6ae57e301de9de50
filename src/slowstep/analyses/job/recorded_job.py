"""The job of a recording: its trainings, numbered, and the ranks that are not among them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from slowstep.analyses.job.job import MISSING_NAMED, Job, Rank
from slowstep.analyses.steps.trainer import training_processes
from slowstep.timeline.timeline import ProcessFacts, Timeline


def recorded_job(timeline: Timeline, folder: Path) -> Job:
    """Number the trainings of a recording, ranks as they tell it and trainings of their own after them, as they began."""
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
    numbers = of_rank | {following + at: process for at, process in enumerate(alone)}
    members = [facts for facts in timeline.processes if facts.rank is not None and facts.role == "trainer"]
    size = max((facts.world_size or 1 for facts in members), default=1)
    seen = {facts.rank for facts in members if facts.rank is not None}
    here = _expected_here(timeline, members, size)
    recorded_here = sum(number in here for number in seen)
    return Job(
        is_excerpt=False,
        ranks=tuple(_rank(timeline, folder, number, process, steps[process]) for number, process in sorted(numbers.items())),
        size=size,
        missing=tuple(itertools.islice((number for number in here if number not in seen), MISSING_NAMED)),
        missing_count=len(here) - recorded_here,
        idle=tuple(sorted(seen - set(of_rank))),
        elsewhere=size - len(here) - (len(seen) - recorded_here) if members else 0,
        repeated=len(training) - len(numbers),
    )


def _rank(timeline: Timeline, folder: Path, number: int, process: int, steps: int) -> Rank:
    facts = timeline.processes[process]
    return Rank(number=number, rank=facts.rank, pid=facts.pid, path=folder, steps=steps, process=process)


def _expected_here(timeline: Timeline, members: Sequence[ProcessFacts], size: int) -> range:
    """The ranks that this launcher should have recorded."""
    if (timeline.run.launchers or 1) > 1 or not members:
        return range(0)
    local = max((facts.local_world_size or size for facts in members), default=size)
    lowest = min(facts.rank or 0 for facts in members)
    # Launchers of ranks number those of one machine one after the other.
    first = lowest - lowest % local
    return range(first, min(first + local, size))
