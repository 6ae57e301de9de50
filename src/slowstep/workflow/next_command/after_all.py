"""What to type next once all is known: the one place that decides which of several steps stands, and by which each of a report comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slowstep.analyses.job.late_rank import RankComparison
from slowstep.command_words import analyze
from slowstep.diagnosis.among_ranks import look_at
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import RankSummary
from slowstep.workflow.next_command.after_fault import after_fault
from slowstep.workflow.next_command.command_lines import from_its_folder


def after_all(
    number: int,
    rank: RankSummary,
    diagnosis: Diagnosis,
    compared: RankComparison | None,
    *,
    given: Sequence[Path],
    tried: NextStep | None = None,
) -> NextStep:
    """The step of the rank `number`, whose diagnosis is this one among the others that it was `compared` with: the first of these that has
    something to say. `given` are the paths at which they lie, `tried` is the step after an experiment in its recording.
    """
    step = _untried(number, rank, diagnosis, compared, given)
    return from_its_folder(step if tried is None else replace(tried, folder=step.folder))


def _untried(number: int, rank: RankSummary, diagnosis: Diagnosis, compared: RankComparison | None, given: Sequence[Path]) -> NextStep:
    slower = None if compared is None or number not in compared.standings else look_at(compared, number)
    if slower is not None and diagnosis.verdict.state == "undetermined":
        return after_rank(slower, given)
    if rank.following is not None and diagnosis != rank.sections.diagnosis:
        return rank.following(diagnosis)
    return rank.next_step if rank.other_launcher is None else after_launcher(rank.other_launcher)


def after_one(path: Path, diagnosis: Diagnosis, own: Callable[[Diagnosis], NextStep]) -> NextStep:
    """The step of one rank by itself, recorded or traced at `path`; `own` has that of its source, which a fault leaves unasked."""
    return after_fault(path) if diagnosis.by_fault else own(diagnosis)


def after_half(own: NextStep) -> NextStep:
    """The step after one half of a training was measured alone: no other rank and no experiment has anything to say then."""
    return from_its_folder(own)


def after_rank(slower: int, paths: Sequence[Path]) -> NextStep:
    """`slower` is the rank that holds up the job, in what lies at the paths."""
    return NextStep(command=analyze(*paths, "--rank", str(slower)))


def after_launcher(other: Path) -> NextStep:
    """`other` is the folder of the next launcher of the same job, whose ranks are recorded there."""
    return NextStep(command=analyze(other))
