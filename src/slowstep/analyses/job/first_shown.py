"""Which rank's report is the one to read first."""

from __future__ import annotations

from collections.abc import Mapping

from slowstep.analyses.job.job import Job
from slowstep.analyses.job.late_rank import SLOWER_FROM, RankComparison


def first_shown(job: Job, lengths: Mapping[int, tuple[int, float]], compared: RankComparison | None) -> int:
    """The number of the rank to be shown, of those of which the steps and their mean length (`lengths`) are known.

    Of a job, its lowest rank, unless that waits for another one, which holds up the job. Of trainings of their own, the one with most
    steps; of several with as many, the lowest, unless another's steps take clearly longer: that one has what the others have not.
    """
    of_job = [rank.number for rank in job.ranks if rank.rank is not None and rank.number in lengths]
    if not of_job:
        return _longest(lengths)
    lowest = min(of_job)
    if compared is None or not compared.is_one:
        return lowest
    waits = lowest in compared.standings and compared.standings[lowest].waits
    return compared.slowest if waits or compared.is_uneven else lowest


def _longest(lengths: Mapping[int, tuple[int, float]]) -> int:
    most = max(steps for steps, _ in lengths.values())
    length = {number: step for number, (steps, step) in lengths.items() if steps == most}
    lowest, slowest = min(length), max(length, key=lambda number: (length[number], -number))
    return slowest if length[slowest] >= SLOWER_FROM * length[lowest] else lowest
