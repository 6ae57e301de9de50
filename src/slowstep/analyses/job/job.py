"""A job: all ranks of a training, those that are missing too. A single process is a job of one rank.

What a missing rank changes in a report: `slowstep.diagnosis.missing_ranks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slowstep.timeline.trace import TraceFacts

# Of ranks that are missing so many are named: what a file says of the size of its job may be damaged.
MISSING_NAMED: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """One process that trains, and where it was recorded.

    `number` is its rank, else the next free number. `rank` is None for a training of its own, which is no part of a job.
    """

    number: int
    rank: int | None
    pid: int  # 0 where a trace does not say
    path: Path  # the folder of the recording, or the file of the trace
    steps: int  # that were recorded
    process: int | None = None  # its index in the tables of a recording
    has_own_number: bool = True  # whether what it left, or the name of that, gives its number
    is_one_of_several: bool = False  # whether its file holds other ranks, too


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedRank(Rank):
    """One rank's trace."""

    facts: TraceFacts
    marked: frozenset[int] = frozenset()  # the numbers of the steps that it marks

    @property
    def source(self) -> tuple[Path, int]:
        """What was read, and which process of it: no two ranks share it."""
        return self.path, self.pid

    @property
    def name(self) -> str:
        """The file's name, and its process where that is needed to tell which trace is meant."""
        return f"{self.path.name}, process {self.pid}" if self.is_one_of_several else self.path.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Who trained and who was missing. All numbers of ranks are those of the job.

    `is_excerpt`: a few steps of each rank, in a file of its own. They need not be the same ones, and are no measure of the job's speed;
    what one file lost no other lost, and that of a rank which is missing was perhaps not given.
    """

    is_excerpt: bool
    ranks: Sequence[Rank]  # that were recorded and trained, by their numbers
    size: int  # ranks of the whole job, as far as is told; 1 for trainings of their own
    missing: Sequence[int] = ()  # ranks that should be here and left nothing: the first of them where they are very many
    missing_count: int = 0
    idle: Sequence[int] = ()  # that were recorded and never updated
    elsewhere: int = 0  # ranks that other machines, or launchers of their own, have
    repeated: int = 0  # processes that were a rank before another took its place (a restarted job)

    @property
    def is_several(self) -> bool:
        """Whether there is more to be told of than one training alone."""
        return len(self.ranks) > 1 or self.size > 1
