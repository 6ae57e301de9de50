"""Makes each rank's report take account of the other ranks' traces: who is late, who waits, and whose report to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from slowstep.analyses.late_ranks import STEPS_AT_LEAST, Compared, compare
from slowstep.diagnosis.among_ranks import among_ranks, look_at
from slowstep.diagnosis.among_ranks import pace as pace_of_job
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import JUDGED_SINGLY
from slowstep.document.trace_ranks import Rank, size_of
from slowstep.document.words import sentence
from slowstep.workflow.next_command.after_ranks import after_rank
from slowstep.workflow.next_command.after_trace import after_trace

APART: Final = (
    "whether a rank is late is not known: there are no two steps that all traces hold; profile all ranks with one schedule, "
    "in the same steps"
)


def compare_ranks(ranks: Mapping[int, Rank]) -> Compared | None:
    """The ranks held against each other, those of which steps are known; None where there are not two."""
    return compare({number: rank.pace for number, rank in sorted(ranks.items()) if rank.pace is not None}, size_of(ranks))


def first_shown(ranks: Mapping[int, Rank], compared: Compared | None) -> int:
    """The rank that the others wait for; the lowest where none stands out."""
    lowest = min(ranks)
    if compared is None or not compared.is_one:
        return lowest
    waits = lowest in compared.standings and compared.standings[lowest].waits
    return compared.slowest if waits or compared.is_uneven else lowest


def judge_among_ranks(ranks: Mapping[int, Rank], compared: Compared | None, given: Sequence[Path]) -> dict[int, Rank]:
    """The ranks, each compared one judged again by what is known of the others. `given` are the paths at which the traces lie."""
    judged = {} if compared is None else {number: _judged(ranks[number], compared, number, given) for number in compared.standings}
    return {**ranks, **judged}


def notes_among_ranks(ranks: Mapping[int, Rank], compared: Compared | None) -> list[str]:
    """What all reports say of who holds up the job, or why that is not known."""
    if compared is None:
        return [APART] if _are_apart(ranks) else []
    said = pace_of_job(compared)
    return [] if said is None else [sentence(said), JUDGED_SINGLY]


def _judged(rank: Rank, compared: Compared, number: int, given: Sequence[Path]) -> Rank:
    sections = rank.sections
    # What a trace could not show is no stage's largest.
    shares = {row["stage"]: row["share"] or 0.0 for row in sections.ledger}
    diagnosis = among_ranks(sections.diagnosis, compared, number, shares=shares)
    next_step = _next_step(diagnosis, rank, look_at(compared, number), given)
    return replace(rank, sections=replace(sections, diagnosis=diagnosis, next_step=next_step))


def _next_step(diagnosis: Diagnosis, rank: Rank, waits_for: int | None, given: Sequence[Path]) -> NextStep:
    if waits_for is not None and diagnosis.verdict.state == "undetermined":
        return after_rank(waits_for, given)
    return after_trace(diagnosis, rank.facts, rank.path)


def _are_apart(ranks: Mapping[int, Rank]) -> bool:
    """Whether ranks that share something were traced for long enough, but not in the same steps."""
    paces = [rank.pace for rank in ranks.values() if rank.pace is not None and len(rank.pace.own_ns) >= STEPS_AT_LEAST]
    return len(paces) > 1 and any(pace.shared_ns.any() for pace in paces)
