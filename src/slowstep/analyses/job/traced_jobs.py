"""Which traces are of one job: those of its ranks tell the same number of ranks, and were taken at the same time.

Clocks of machines may be wrong. Where all traces of jobs of one size tell ranks that differ, and mark the same steps, they are one job
whatever their clocks say, and the report says by how much these differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from slowstep.analyses.job.job import MISSING_NAMED, Job, TracedRank
from slowstep.analyses.job.repeated_captures import Preferred
from slowstep.health import Health, HealthKind

CLOCKS_OF_RANKS_DIFFER: Final = HealthKind(
    "clocks-of-ranks-differ",
    "notice",
    "by their clocks these traces begin {ns:duration} apart; they name different ranks of {size} and mark the same steps, and are taken "
    "for one job whose machines' clocks differ: if they are from two runs, analyze one of them alone",
)
# Ranks are profiled in the same steps; their clocks may differ, and a slow one may begin later.
APART_NS: Final = 600 * 10**9


def divide_into_jobs(ranks: Sequence[TracedRank]) -> list[list[TracedRank]]:
    """The traces of each job, in the order in which they are given: first the job with most traces, and of as many one that marks steps."""
    groups: list[list[TracedRank]] = []
    for rank in ranks:
        own = [group for group in groups if any(_belong_together(rank, other) for other in group)]
        groups = [group for group in groups if group not in own] + [[*(other for group in own for other in group), rank]]
    groups = _completed(groups)
    places = {id(rank): at for at, rank in enumerate(ranks)}
    ordered = [sorted(group, key=lambda rank: places[id(rank)]) for group in groups]

    def order_of(job: list[TracedRank]) -> tuple[int, bool, int]:
        return -len(job), not any(rank.marked for rank in job), places[id(job[0])]

    return sorted(ordered, key=order_of)


def number_ranks(ranks: Sequence[TracedRank]) -> tuple[dict[int, TracedRank], list[Preferred]]:
    """The ranks by number, and which traces were left out as others of a rank that is there.

    What does not tell its rank gets the lowest numbers that no other trace has, in the order of reading.
    """
    told: dict[int, list[TracedRank]] = {}
    for one in sorted((rank for rank in ranks if rank.has_own_number), key=lambda rank: -rank.facts.events):
        told.setdefault(one.number, []).append(one)
    numbered = {number: first for number, (first, *_) in told.items()}
    doubles = [Preferred(one=first, others=tuple(others)) for first, *others in told.values() if others]
    free = (number for number in itertools.count() if number not in numbered)
    for one in [rank for rank in ranks if not rank.has_own_number]:
        number = next(free)
        numbered[number] = replace(one, number=number, rank=number)
    return numbered, doubles


def traced_job(ranks: Mapping[int, TracedRank]) -> Job:
    """The job of these ranks: it is as large as they tell, or as they are."""
    size = max(len(ranks), *(rank.facts.world_size or 0 for rank in ranks.values()))
    missing = itertools.islice((number for number in itertools.count() if number not in ranks), min(size - len(ranks), MISSING_NAMED))
    by_number = tuple(rank for _, rank in sorted(ranks.items()))
    return Job(is_excerpt=True, ranks=by_number, size=size, missing=tuple(missing), missing_count=size - len(ranks))


def find_differing_clocks(job: Sequence[TracedRank]) -> list[Health]:
    """A row where the clocks of a job's ranks say that its traces were not taken at the same time."""
    clocks = sorted(rank.facts.clock_ns for rank in job if rank.facts.clock_ns is not None)
    by_ns = max((after[0] - before[0] for before, after in itertools.pairwise(clocks)), default=0)
    if by_ns <= APART_NS:
        return []
    return [CLOCKS_OF_RANKS_DIFFER(len(job), ns=by_ns, size=job[0].facts.world_size)]


def _completed(groups: list[list[TracedRank]]) -> list[list[TracedRank]]:
    """The jobs, of which those of one size become one where no two of all their traces are of the same rank."""
    sizes: dict[tuple[int, frozenset[int]], list[list[TracedRank]]] = {}
    for group in groups:
        alike = {(rank.facts.world_size or 0, rank.marked) for rank in group}
        size, marked = next(iter(alike))
        if len(alike) == 1 and size > 1 and marked and all(rank.has_own_number for rank in group):
            sizes.setdefault((size, marked), []).append(group)
    for alike_groups in sizes.values():
        joined = list(itertools.chain.from_iterable(alike_groups))
        if len(alike_groups) > 1 and len({rank.number for rank in joined}) == len(joined):
            groups = [group for group in groups if group not in alike_groups] + [joined]
    return groups


def _belong_together(one: TracedRank, other: TracedRank) -> bool:
    """Whether two traces are of one job. Without a clock that both share, the numbers of their ranks say so, else as many steps in the same
    format."""
    a, b = one.facts, other.facts
    if a.world_size is not None and b.world_size is not None and a.world_size != b.world_size:
        return False
    if a.clock_ns is not None and b.clock_ns is not None:
        return max(a.clock_ns[0], b.clock_ns[0]) - min(a.clock_ns[1], b.clock_ns[1]) <= APART_NS
    if one.has_own_number and other.has_own_number:
        return True
    return a.format == b.format and one.steps == other.steps
