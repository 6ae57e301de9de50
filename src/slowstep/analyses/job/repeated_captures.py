"""Which traces are captures of one process: a profiler whose schedule repeats writes a file for each cycle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slowstep.analyses.job.job import TracedRank

# As `tensorboard_trace_handler` names a file: the worker (its host and pid where nothing else was asked for), and when it was written.
WORKER: Final = re.compile(r"(.+)\.\d{10,}\.pt\.trace\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferred:
    """Of several traces of the same process or rank, the one that is judged, and the others."""

    one: TracedRank
    others: tuple[TracedRank, ...]


def one_of_each_process(ranks: Sequence[TracedRank]) -> tuple[list[TracedRank], list[Preferred]]:
    """The traces, of several captures of one process only one of them; and which was preferred to which."""
    processes: list[list[TracedRank]] = []
    for rank in ranks:
        own = next((process for process in processes if all(_of_one_process(rank, other) for other in process)), None)
        if own is None:
            processes.append([rank])
        else:
            own.append(rank)
    preferred = [_preferred(process) for process in processes]
    return [each.one for each in preferred], [each for each in preferred if each.others]


def _preferred(process: Sequence[TracedRank]) -> Preferred:
    """The capture of most steps, whose means are the surest. Of equal ones the last: nothing starts up in it any more."""

    def worth(rank: TracedRank) -> tuple[int, int]:
        return rank.steps, rank.facts.clock_ns[0] if rank.facts.clock_ns else 0

    one = max(process, key=worth)
    return Preferred(one=one, others=tuple(rank for rank in process if rank is not one))


def _of_one_process(one: TracedRank, other: TracedRank) -> bool:
    """Ranks on two hosts may have one pid, but they are profiled at the same time and in the same steps, and have other names."""
    same = (one.has_own_number, one.number, one.pid) == (other.has_own_number, other.number, other.pid)
    if not same or not one.pid or not _one_after_the_other(one, other):
        return False
    names = [(_worker(rank), rank.facts.host) for rank in (one, other)]
    if any(mine is not None and its is not None and mine != its for mine, its in zip(*names, strict=True)):
        return False
    is_named_alike = any(mine is not None and mine == its for mine, its in zip(*names, strict=True))
    return is_named_alike or _in_other_steps(one, other)


def _one_after_the_other(one: TracedRank, other: TracedRank) -> bool:
    first, second = one.facts.clock_ns, other.facts.clock_ns
    return first is not None and second is not None and (first[1] <= second[0] or second[1] <= first[0])


def _in_other_steps(one: TracedRank, other: TracedRank) -> bool:
    return bool(one.marked) and bool(other.marked) and one.marked.isdisjoint(other.marked)


def _worker(rank: TracedRank) -> str | None:
    found = WORKER.match(rank.path.name)
    return found[1] if found else None
