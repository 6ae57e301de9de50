"""Which traces are of one job: those of its ranks tell the same number of ranks, and were taken at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slowstep.workflow.trace_ranks import Rank

# Ranks are profiled in the same steps; their clocks may differ, and a slow one may begin later.
APART_NS: Final = 600 * 10**9


def jobs(ranks: Sequence[Rank]) -> list[list[Rank]]:
    """The traces of each job, those of one in the order in which they are given; that with most traces first."""
    groups: list[list[Rank]] = []
    for rank in ranks:
        own = [group for group in groups if any(_belong_together(rank, other) for other in group)]
        groups = [group for group in groups if group not in own] + [[*(other for group in own for other in group), rank]]
    places = {id(rank): at for at, rank in enumerate(ranks)}
    ordered = [sorted(group, key=lambda rank: places[id(rank)]) for group in groups]
    return sorted(ordered, key=lambda group: (-len(group), places[id(group[0])]))


def _belong_together(one: Rank, other: Rank) -> bool:
    """Whether two traces are of one job. Without a clock that both share, the numbers of their ranks say so, else as many steps in the same
    format."""
    a, b = one.facts, other.facts
    if a.world_size is not None and b.world_size is not None and a.world_size != b.world_size:
        return False
    if a.clock_ns is not None and b.clock_ns is not None:
        return max(a.clock_ns[0], b.clock_ns[0]) - min(a.clock_ns[1], b.clock_ns[1]) <= APART_NS
    if one.told and other.told:
        return True
    return a.format == b.format and one.report["run"]["steps"] == other.report["run"]["steps"]
