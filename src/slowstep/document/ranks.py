"""All ranks of a job in the report of each: a row for every one, which of them holds up the job, and who is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from slowstep.analyses.job.job import Job, Rank
from slowstep.analyses.job.late_rank import STEPS_AT_LEAST, RankComparison
from slowstep.analyses.job.rank_steps import RankPace
from slowstep.diagnosis.among_ranks import pace
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.missing_ranks import find_absences
from slowstep.document.finding_rows import HealthRow
from slowstep.document.next_step import NextStep
from slowstep.document.rows import health_row
from slowstep.document.run_rows import RankRow
from slowstep.document.sections import RankSection, Sections
from slowstep.faults import Fault
from slowstep.health import HealthKind
from slowstep.reason_words import sentence

STAGES_SHOWN: Final = 2
# Smaller stages say nothing about what is different between ranks (docs/definitions.md: what a finding may claim).
STAGE_FROM: Final = 0.03
# Of other ranks, whose traces lost something.
RANKS_SHOWN: Final = 5
LOSSES_OF_OTHER_RANKS: Final = HealthKind(
    "losses-of-other-ranks",
    "data_loss",
    "not all could be read of {ranks}: what is compared with them may be wrong; --rank says more of each",
)
JUDGED_SINGLY: Final = "each rank is judged alone: gains assume that no other rank is slower than this one after the fix"
NO_COMMON_STEPS: Final = (
    "whether a rank is late is not known: there are no two steps that all traces hold; profile all ranks with one schedule, "
    "in the same steps"
)
STEPS_DIFFER: Final = "the traces hold different numbers of steps: each is judged by its own"


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSummary:
    """What is kept of a rank once it has been measured and judged: its measurements are let go of before the next rank is read."""

    sections: Sections
    pace: RankPace
    next_step: NextStep  # by what was measured of it alone
    following: Callable[[Diagnosis], NextStep] | None = None  # the same by another diagnosis, where that would be another one
    other_launcher: Path | None = None  # left the recording of other ranks, which tells more where this one's verdict is open
    health: tuple[HealthRow, ...] = ()  # of this rank's report alone
    faults: Sequence[Fault] = ()  # errors of slowstep's own with this rank


def rank_sections(
    job: Job,
    ranks: Mapping[int, RankSummary],
    compared: RankComparison | None,
    *,
    reports: Mapping[int, str],
    left_out: Sequence[HealthRow] = (),
) -> dict[int, RankSection]:
    """What the report of each rank says of the others; of a lone process, only what was left out.

    `reports` names the file of each rank's report, or its trace; `left_out` is what lies beside the ranks and is not judged with them.
    """
    absences = [health_row(row) for row in find_absences(job, ranks)] if job.is_several else []
    notes = tuple(_notes(job, ranks, compared))
    shared: dict[str, Any] = {
        "trainings": len(job.ranks),
        "rank_rows": [_row(rank, ranks.get(rank.number), reports) for rank in job.ranks],
    }
    if job.missing:
        shared["missing_ranks"] = list(job.missing)
    losses = {rank.number: _losses(ranks[rank.number]) for rank in job.ranks if job.is_excerpt}
    found = {}
    for rank in job.ranks:
        if rank.number in ranks:
            health = (*_losses_of_others(losses, rank.number), *ranks[rank.number].health, *absences, *left_out)
            found[rank.number] = RankSection(run=_run(job, rank, ranks, shared), notes=notes, health=health)
    return found


def _run(job: Job, rank: Rank, ranks: Mapping[int, RankSummary], shared: Mapping[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = {"ranks": 1 if rank.rank is None else job.size}
    if job.is_several:
        return run | {"rank": rank.rank, "training": rank.number, "pid": rank.pid, **shared, "all_samples_per_s": _speed(job, rank, ranks)}
    return run | {"pid": rank.pid} if rank.is_one_of_several else run


def _row(rank: Rank, summary: RankSummary | None, reports: Mapping[int, str]) -> RankRow:
    row = {"number": rank.number, "rank": rank.rank, "pid": rank.pid}
    if summary is None:
        unknown = dict.fromkeys(("samples_per_s", "step_ms", "own_ms", "state", "rule", "report"))
        return cast(RankRow, {**row, "steps": rank.steps, "stages": [], **unknown})
    sections, verdict = summary.sections, summary.sections.diagnosis.verdict
    shares = [(each["share"], each["stage"]) for each in sections.ledger if each["share"] is not None and each["share"] >= STAGE_FROM]
    largest = sorted(shares, key=lambda each: -each[0])[:STAGES_SHOWN]
    known = {
        "steps": sections.run["steps"],
        "samples_per_s": sections.throughput["samples_per_s"],
        "step_ms": summary.pace.step_ms,
        "own_ms": summary.pace.own_ms,
        "stages": [{"stage": stage, "share": share} for share, stage in largest],
        "state": verdict.state,
        "rule": verdict.rule,
        "report": reports[rank.number],
    }
    return cast(RankRow, {**row, **known})


def _speed(job: Job, rank: Rank, ranks: Mapping[int, RankSummary]) -> float | None:
    """Samples/s of all recorded ranks of the job; None where one is unknown, of a training of its own, and of the few steps of traces."""
    of_job = [each.number for each in job.ranks if each.rank is not None and each.number in ranks]
    speeds = [ranks[number].sections.throughput["samples_per_s"] for number in of_job]
    if job.is_excerpt or rank.rank is None or len(speeds) < 2 or None in speeds:
        return None
    return float(sum(cast("list[float]", speeds)))


def _notes(job: Job, ranks: Mapping[int, RankSummary], compared: RankComparison | None) -> list[str]:
    """Who holds up the job, or why that is not known."""
    said = None if compared is None else pace(compared)
    notes = [] if said is None else [sentence(said)]
    if said is not None or (not job.is_excerpt and job.size > 1):
        notes.append(JUDGED_SINGLY)
    if job.is_excerpt:
        notes += [NO_COMMON_STEPS] if compared is None and _share_something(ranks) else []
        notes += [STEPS_DIFFER] if len({each.sections.run["steps"] for each in ranks.values()}) > 1 else []
    return notes


def _share_something(ranks: Mapping[int, RankSummary]) -> bool:
    """Whether ranks that share something were traced for long enough to be held against each other."""
    told = (each.pace.steps for each in ranks.values())
    steps = [each for each in told if each is not None and len(each.own_ns) >= STEPS_AT_LEAST]
    return len(steps) > 1 and any(each.shared_ns.any() for each in steps)


def _losses(summary: RankSummary) -> list[str]:
    """What was lost of a rank's trace, by the names of its health."""
    return [row["name"] for row in summary.sections.health if row["severity"] in ("data_loss", "error")]


def _losses_of_others(losses: Mapping[int, Sequence[str]], number: int) -> list[HealthRow]:
    """What the other ranks' reports say of losses: this one's table compares with them. Their mere doubts are in their own reports."""
    others = {other: names for other, names in losses.items() if names and other != number}
    if not others:
        return []
    shown = [f"rank {other} ({', '.join(names)})" for other, names in list(others.items())[:RANKS_SHOWN]]
    more = f" and {len(others) - RANKS_SHOWN} more" if len(others) > RANKS_SHOWN else ""
    return [health_row(LOSSES_OF_OTHER_RANKS(len(others), ranks=f"{', '.join(shown)}{more}"))]
