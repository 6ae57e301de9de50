"""What happens when a rank is missing: all that a report says otherwise because of it.

A rank is missing where its job tells that there is one (the size of the process group) and it left neither recording nor trace. Who decides
that: of a recording `recorded_job` (`analyses/job/`), among the ranks that its launcher should have recorded; of traces `traced_job` beside
it, among all numbers below the size. The others are reported as they are, but none of them can tell whether it waits for that one, so:

- the report says which are missing, in its health (`find_absences`) and in `run.missing_ranks`; in the table of ranks (`not recorded`, `no
  trace here`) they have rows only where they are no more than the others, and beside one trace alone there is no table (`draw_ranks`);
- a rank that spends a tenth of its time in collectives, for which nothing else is to blame, has an open verdict whether one is missing or
  not (`unseen_time.py`: `_in_sharing`; of a trace `trace_view.py`: `_beside_the_model`). Where one is, the verdict of a recorded rank says
  that it may wait for that one (`m.sharing.missing`: it is measured), and that of a traced one says so where ranks were compared
  (`late_one_may_be_missing`). Of one trace alone, and of traces without common steps, it says that a late one is not seen
  (`LATE_ONE_NOT_SEEN`), and names none;
- a rank that waits for a late one is told that another may be later still (`later_one_may_be_missing`);
- who sets the pace is said of the ranks that were compared (`among_compared`), and what overlapping collectives would gain assumes that
  the others are not late (`assumed_of_others`), with the advice to look at them first (`compare_with_others`). A rank that is here without
  steps that can be held against others' is one of these, too.

A launcher that left nothing at all is told of in `document/launchers.py`.

Ranks that were recorded and never updated are idle, those of other machines or launchers are elsewhere: both are told, and open nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from slowstep.analyses.job.job import Job
from slowstep.analyses.job.late_rank import RankComparison
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.findings import Fix, Verdict
from slowstep.health import Health, HealthKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_count, format_ranks

OTHERS_IN_TIME: Final = "no other rank became late"

LATE_ONE_MAY_BE_MISSING: Final = Wording(
    "late-one-may-be-missing",
    "{share:share} of the time is {stage:stage}, and whether this rank waits for any of {others:count other rank} that "
    "{others:plural was|were} not compared with it is not seen: "
    "trace the same steps of all ranks, and analyze the folder of their traces",
)
LATER_ONE_MAY_BE_MISSING: Final = Wording(
    "later-one-may-be-missing",
    "; whether any of {others:count other rank} that {others:plural was|were} not compared with it is later still is not seen",
)
WITHOUT_TRACE: Final = HealthKind(
    "missing-ranks", "notice", "only {here} of {size} ranks {here:plural has|have} a trace here: what the others did is not known"
)
WITHOUT_RECORDING: Final = HealthKind(
    "missing-ranks", "notice", "of {size} ranks {here}{ranks} left no recording: see how their processes started"
)
RANKS_NOT_NAMED: Final = HealthKind(
    "ranks-not-named",
    "notice",
    "neither these traces nor their names give the rank: numbered in the order of names, and of process ids within a file",
)
IDLE_RANKS: Final = HealthKind("idle-ranks", "notice", "{ranks} joined the process group and never called an optimizer")
SHORT_TRAININGS: Final = HealthKind("short-trainings", "notice", "{ranks}: too few steps were recorded for a report")
EARLIER_ATTEMPTS: Final = HealthKind(
    "earlier-attempts", "info", "processes whose rank another one took over later: a restarted job; not in the table"
)
RANKS_ELSEWHERE: Final = HealthKind(
    "ranks-elsewhere", "info", "they run on other machines or under launchers of their own, and are recorded there"
)
RANKS_COMPARED: Final = Wording("ranks-compared", "of the {seen} of {size} ranks that could be compared, ")


def late_one_may_be_missing(verdict: Verdict, compared: RankComparison) -> Verdict:
    """The open verdict of a traced rank that may wait for one that was not compared with it."""
    if verdict.reason is None or verdict.reason.wording is not LATE_ONE_NOT_SEEN or compared.is_whole:
        return verdict
    return replace(verdict, reason=LATE_ONE_MAY_BE_MISSING(**verdict.reason.values, others=compared.not_compared))


def later_one_may_be_missing(compared: RankComparison) -> Reason | None:
    """What a rank that waits for a late one is told of those that were not compared with it; None where all were."""
    return None if compared.is_whole else LATER_ONE_MAY_BE_MISSING(others=compared.not_compared)


def among_compared(compared: RankComparison) -> Reason | None:
    """Of which ranks something is said, where that is not all of the job."""
    return None if compared.is_whole else RANKS_COMPARED(seen=len(compared.standings), size=compared.size)


def assumed_of_others(compared: RankComparison) -> str:
    """What the gain of faster collectives assumes of the other ranks."""
    return OTHERS_IN_TIME if compared.is_whole else f"{OTHERS_IN_TIME} ({format_count(compared.not_compared, 'was', 'were')} not compared)"


def compare_with_others(compared: RankComparison) -> tuple[Fix, ...]:
    """The advice to look at the ranks that were not compared; none where all were."""
    if compared.is_whole:
        return ()
    others = format_count(compared.not_compared, "other rank")
    rest = f"compare with the {others}: all ranks' traces, of the same steps; where one is late, its own cause comes first"
    return (Fix(text=rest),)


def find_absences(job: Job, reported: Iterable[int]) -> list[Health]:
    """Which ranks of a job are not among those `reported`, and why."""
    unnamed = sum(not rank.has_own_number for rank in job.ranks)
    short = sorted({rank.number for rank in job.ranks} - set(reported))
    found = (
        _missing(job) if job.missing_count else None,
        RANKS_NOT_NAMED(unnamed) if unnamed and len(job.ranks) > 1 else None,
        IDLE_RANKS(len(job.idle), ranks=format_ranks(job.idle)) if job.idle else None,
        SHORT_TRAININGS(len(short), ranks=format_ranks(short)) if short else None,
        EARLIER_ATTEMPTS(job.repeated) if job.repeated else None,
        RANKS_ELSEWHERE(job.elsewhere) if job.elsewhere else None,
    )
    return [row for row in found if row is not None]


def _missing(job: Job) -> Health:
    if job.is_excerpt:
        return WITHOUT_TRACE(job.missing_count, here=len(job.ranks), size=job.size)
    here = "of those on this machine " if job.elsewhere else None
    return WITHOUT_RECORDING(job.missing_count, size=job.size, here=here, ranks=format_ranks(job.missing, job.missing_count))
