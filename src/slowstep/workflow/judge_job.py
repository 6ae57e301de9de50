"""The ranks of a job, each measured and judged before, together: who is late, who waits, and whose report is the one to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slowstep.analyses.job.first_shown import first_shown
from slowstep.analyses.job.job import Job
from slowstep.analyses.job.late_rank import RankComparison, compare_ranks
from slowstep.diagnosis.among_ranks import among_ranks, look_at
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.finding_rows import HealthRow
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import RankSummary, rank_sections
from slowstep.document.sections import RankSection
from slowstep.faults import Attempts, Fault
from slowstep.workflow.next_command.after_ranks import after_rank


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedJob:
    """The ranks by number, each judged by what is known of the others, and what its report says of those; `first` is the one to show."""

    first: int
    ranks: Mapping[int, RankSummary]
    others: Mapping[int, RankSection]  # empty where they could not be told of
    faults: Sequence[Fault]  # errors of slowstep's own in all this: of every report


def judge_job(
    job: Job,
    ranks: Mapping[int, RankSummary],
    *,
    given: Sequence[Path],
    report_names: Callable[[int], Mapping[int, str]],
    following: Callable[[int, Diagnosis], NextStep] | None = None,
    left_out: Sequence[HealthRow] = (),
) -> JudgedJob:
    """Compare the ranks, and judge each among them. What fails leaves their reports as they were, but calls none of them healthy.

    `given` are the paths at which they lie. `report_names` are the names of their reports once it is known which is shown first,
    `following` is what to do next where a diagnosis is another one than that of the rank alone.
    """
    attempt = Attempts()
    steps = {number: each.steps for number, each in sorted(ranks.items()) if each.steps is not None}
    compared = attempt.outcome(compare_ranks.__name__, compare_ranks, steps, job.size)
    known = None if isinstance(compared, Fault) else compared
    lengths = {number: (each.total_steps, each.step_ms or 0.0) for number, each in ranks.items()}
    first = attempt.otherwise(min(ranks), first_shown, job, lengths, known)
    judged = compared if isinstance(compared, Fault) else attempt.outcome(among_ranks.__name__, _judge_each, ranks, known, given, following)
    ranks = _opened(ranks, judged) if isinstance(judged, Fault) else judged
    others = attempt.outcome(rank_sections.__name__, rank_sections, job, ranks, known, reports=report_names(first), left_out=left_out)
    if isinstance(others, Fault):
        ranks, others = _opened(ranks, others), {}
    return JudgedJob(first=first, ranks=ranks, others=others, faults=attempt.faults)


def _judge_each(
    ranks: Mapping[int, RankSummary],
    compared: RankComparison | None,
    given: Sequence[Path],
    following: Callable[[int, Diagnosis], NextStep] | None,
) -> dict[int, RankSummary]:
    if compared is None:
        return dict(ranks)
    judged = {number: _judged(number, ranks[number], compared, given, following) for number in compared.standings}
    return {**ranks, **judged}


def _judged(
    number: int,
    rank: RankSummary,
    compared: RankComparison,
    given: Sequence[Path],
    following: Callable[[int, Diagnosis], NextStep] | None,
) -> RankSummary:
    sections = rank.sections
    # What could not be seen is no stage's largest.
    shares = {row["stage"]: row["share"] or 0.0 for row in sections.ledger}
    diagnosis = among_ranks(sections.diagnosis, compared, number, shares=shares)
    slower, next_step = look_at(compared, number), sections.next_step
    if slower is not None and diagnosis.verdict.state == "undetermined":
        next_step = after_rank(slower, given)
    elif following is not None and diagnosis != sections.diagnosis:
        next_step = following(number, diagnosis)
    return replace(rank, sections=replace(sections, diagnosis=diagnosis, next_step=next_step))


def _opened(ranks: Mapping[int, RankSummary], fault: Fault) -> dict[int, RankSummary]:
    """The same where something could not be done that might have changed a healthy verdict."""
    return {number: replace(each, sections=each.sections.opened_by(fault)) for number, each in ranks.items()}
