"""The ranks of a job, each measured and judged alone before, judged together: the one place where a verdict of the engine's may change.

What may change it, in this order: the other ranks (`among_ranks`), an experiment (`with_tried`), and what failed in all this (`opened_by`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slowstep.analyses.job.first_shown import first_shown
from slowstep.analyses.job.job import Job
from slowstep.analyses.job.late_rank import RankComparison, compare_ranks
from slowstep.diagnosis.among_ranks import among_ranks
from slowstep.diagnosis.law import Diagnosis, opened_by
from slowstep.diagnosis.tried import with_tried
from slowstep.document.build import build
from slowstep.document.finding_rows import HealthRow
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import RankSummary, rank_sections
from slowstep.document.sections import ALONE, ExperimentSection, RankSection, Sections
from slowstep.faults import Attempts, Fault
from slowstep.findings import Finding
from slowstep.workflow.next_command.after_all import after_all

# What reads the experiment of a training with these sections: what it showed, and what to do after it. None where there is none.
ReadExperiment = Callable[[Sections], tuple[ExperimentSection, NextStep] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedJob:
    """The ranks by number, each judged by all that is known, what is to be typed next, and what its report says of the others.

    `first` is the one to show, of which `experiment` is.
    """

    first: int
    ranks: Mapping[int, RankSummary]
    next_steps: Mapping[int, NextStep]
    others: Mapping[int, RankSection]  # empty where they could not be told of
    experiment: ExperimentSection | None
    faults: Sequence[Fault]  # errors of slowstep's own in all this: of every report


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """A report; of a trace `findings` are those of the report as they were diagnosed, which it has in words only."""

    report: dict[str, Any]
    findings: Sequence[Finding] = ()


def judge_job(
    job: Job,
    ranks: Mapping[int, RankSummary],
    *,
    given: Sequence[Path],
    report_names: Callable[[int], Mapping[int, str]],
    left_out: Sequence[HealthRow] = (),
    read_experiment: ReadExperiment | None = None,
) -> JudgedJob:
    """Compare the ranks, and judge each among them. What fails leaves their reports as they were, but calls none of them healthy.

    `given` are the paths at which they lie. `report_names` are the names of their reports once it is known which is shown first.
    """
    attempt = Attempts()
    steps = {number: each.pace.steps for number, each in sorted(ranks.items()) if each.pace.steps is not None}
    compared = attempt.outcome(compare_ranks.__name__, compare_ranks, steps, job.size)
    known = None if isinstance(compared, Fault) else compared
    lengths = {number: (each.pace.total_steps, each.pace.step_ms or 0.0) for number, each in ranks.items()}
    first = attempt.otherwise(min(ranks), first_shown, job, lengths, known)
    among = compared if isinstance(compared, Fault) else attempt.outcome(among_ranks.__name__, _judge_each, ranks, known)
    judged = _opened(ranks, among) if isinstance(among, Fault) else among
    others = attempt.outcome(rank_sections.__name__, rank_sections, job, judged, known, reports=report_names(first), left_out=left_out)
    if isinstance(others, Fault):
        judged, others = _opened(judged, others), {}
    judged[first], experiment, tried = _with_experiment(attempt, judged[first], read_experiment)
    next_steps = _next_steps(attempt, ranks, judged, known, given, {first: tried})
    return JudgedJob(first=first, ranks=judged, next_steps=next_steps, others=others, experiment=experiment, faults=attempt.faults)


def report_of(judged: JudgedJob, number: int, more_health: Iterable[HealthRow]) -> dict[str, Any]:
    """The report of one of the ranks. `more_health` is what was met besides, as errors of slowstep's own."""
    return dict(
        build(
            judged.ranks[number].sections,
            next_step=judged.next_steps[number],
            ranks=judged.others.get(number, ALONE),
            experiment=judged.experiment if number == judged.first else None,
            more_health=more_health,
        )
    )


def _judge_each(ranks: Mapping[int, RankSummary], compared: RankComparison | None) -> dict[int, RankSummary]:
    if compared is None:
        return dict(ranks)
    return {**ranks, **{number: _judged(number, ranks[number], compared) for number in compared.standings}}


def _judged(number: int, rank: RankSummary, compared: RankComparison) -> RankSummary:
    # What could not be seen is no stage's largest.
    shares = {row["stage"]: row["share"] or 0.0 for row in rank.sections.ledger}
    return _with(rank, among_ranks(rank.sections.diagnosis, compared, number, shares=shares))


def _with_experiment(
    attempt: Attempts, rank: RankSummary, read: ReadExperiment | None
) -> tuple[RankSummary, ExperimentSection | None, NextStep | None]:
    """The rank with what an experiment in its recording showed, that, and what to do after it; None where there is none."""
    tried = None if read is None else attempt.outcome("join_experiment", read, rank.sections)
    if isinstance(tried, Fault):
        return _with(rank, opened_by(rank.sections.diagnosis, tried)), None, None
    if tried is None:
        return rank, None, None
    experiment, step = tried
    return _with(rank, with_tried(rank.sections.diagnosis, experiment.tried)), experiment, step


def _next_steps(
    attempt: Attempts,
    ranks: Mapping[int, RankSummary],
    judged: Mapping[int, RankSummary],
    compared: RankComparison | None,
    given: Sequence[Path],
    tried: Mapping[int, NextStep | None],
) -> dict[int, NextStep]:
    """What to type next of each rank; of one of which that cannot be told, what it tells alone."""

    def next_step(number: int) -> NextStep:
        diagnosis = judged[number].sections.diagnosis
        return after_all(number, ranks[number], diagnosis, compared, given=given, tried=tried.get(number))

    return {number: attempt.otherwise(each.next_step, next_step, number) for number, each in ranks.items()}


def _opened(ranks: Mapping[int, RankSummary], fault: Fault) -> dict[int, RankSummary]:
    return {number: _with(each, opened_by(each.sections.diagnosis, fault)) for number, each in ranks.items()}


def _with(rank: RankSummary, diagnosis: Diagnosis) -> RankSummary:
    return replace(rank, sections=replace(rank.sections, diagnosis=diagnosis))
