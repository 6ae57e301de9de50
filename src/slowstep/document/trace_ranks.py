"""What a trace's report says of the other ranks: a row for each, which one holds up the job, and who is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from slowstep.analyses.late_ranks import RankSteps
from slowstep.document.ranks import rank_row
from slowstep.document.report import HealthRow, RankRow
from slowstep.document.sections import RankSection, Sections
from slowstep.faults import Fault
from slowstep.timeline.trace import TraceFacts

# Of other ranks, whose traces lost something.
RANKS_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """One rank's trace and what it gives its report; `told` where the trace or its name tells the number."""

    number: int
    told: bool
    facts: TraceFacts
    sections: Sections
    pace: RankSteps | None  # None where its steps cannot be held against other ranks'
    path: Path
    pid: int  # of the training process; 0 where the trace does not say
    marked: frozenset[int] = frozenset()  # the numbers of the steps that it marks
    is_one_of_several: bool = False  # whether its file holds other ranks, too
    faults: Sequence[Fault] = ()  # errors of slowstep's own with this trace

    @property
    def name(self) -> str:
        """The file's name, and its process where that is needed to tell which trace is meant."""
        return f"{self.path.name}, process {self.pid}" if self.is_one_of_several else self.path.name

    @property
    def events(self) -> int:
        """How much was read."""
        return self.facts.events

    @property
    def step_ms(self) -> float | None:
        """Mean length of a step."""
        per_second = self.sections.throughput["steps_per_s"]
        return None if not per_second else 1e3 / per_second

    @property
    def own_ms(self) -> float | None:
        """A step without what is shared with other ranks; None where that is unknown."""
        shared = next((row["share"] for row in self.sections.ledger if row["stage"] == "gradient_sharing"), None)
        return None if shared is None or self.step_ms is None else self.step_ms * (1 - shared)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferred:
    """Of several traces of the same process or rank, the one that is judged, and the others."""

    one: Rank
    others: tuple[Rank, ...]


def size_of(ranks: Mapping[int, Rank]) -> int:
    """How many ranks the job has, as far as the traces tell."""
    return max(len(ranks), *(rank.facts.world_size or 0 for rank in ranks.values()))


def trace_rank_sections(ranks: Mapping[int, Rank], left_out: Sequence[HealthRow], notes: Sequence[str]) -> dict[int, RankSection]:
    """For every report: what is known of the other ranks, and what was left out. Of a lone trace, only what is missing."""
    size = size_of(ranks)
    health = [*_absences(ranks, size), *left_out]
    rows = [_row(rank) for _, rank in sorted(ranks.items())]
    losses = {number: _losses(rank) for number, rank in sorted(ranks.items())}
    differ = len({rank.sections.run["steps"] for rank in ranks.values()}) > 1
    notes = (*notes, *(["the traces hold different numbers of steps: each is judged by its own"] if differ else []))
    found = {}
    for number, rank in ranks.items():
        run: dict[str, Any] = {"ranks": size}
        if rank.is_one_of_several or size > 1:
            run["pid"] = rank.pid
        if size > 1:
            run |= {"rank": number, "training": number, "trainings": len(ranks)}
            run |= {"rank_rows": rows, "all_samples_per_s": None}
        found[number] = RankSection(run=run, notes=notes, health=(*_losses_of_others(losses, number), *health))
    return found


def _row(rank: Rank) -> RankRow:
    row = rank_row(rank.sections, report=rank.name, step_ms=rank.step_ms, own_ms=rank.own_ms)
    return cast(RankRow, row | {"number": rank.number, "rank": rank.number, "pid": rank.pid})


def _losses(rank: Rank) -> list[str]:
    """What was lost of a trace, by the names of its health."""
    return [row["name"] for row in rank.sections.health if row["severity"] in ("data_loss", "error")]


def _losses_of_others(losses: Mapping[int, Sequence[str]], number: int) -> list[HealthRow]:
    """What the other ranks' reports say of losses: this one's table compares with them. Their mere doubts are in their own reports."""
    others = {other: names for other, names in losses.items() if names and other != number}
    if not others:
        return []
    shown = [f"rank {other} ({', '.join(names)})" for other, names in list(others.items())[:RANKS_SHOWN]]
    more = f" and {len(others) - RANKS_SHOWN} more" if len(others) > RANKS_SHOWN else ""
    remedy = f"not all could be read of {', '.join(shown)}{more}: what is compared with them may be wrong; --rank says more of each"
    return [{"name": "losses-of-other-ranks", "severity": "data_loss", "count": len(others), "remedy": remedy}]


def _absences(ranks: Mapping[int, Rank], size: int) -> list[HealthRow]:
    """What of the job is not known."""
    rows: list[HealthRow] = []
    if size > len(ranks):
        remedy = f"only {len(ranks)} of {size} ranks have a trace here: what the others did is not known"
        rows.append({"name": "missing-ranks", "severity": "notice", "count": size - len(ranks), "remedy": remedy})
    unnamed = [rank for rank in ranks.values() if not rank.told]
    if len(ranks) > 1 and unnamed:
        remedy = "neither these traces nor their names tell the rank: numbered in the order of names, and of process ids within a file"
        rows.append({"name": "ranks-not-named", "severity": "notice", "count": len(unnamed), "remedy": remedy})
    return rows
