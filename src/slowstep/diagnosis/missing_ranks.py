"""What happens when a rank is missing: all that a report says otherwise because of it.

A rank is missing where its job tells that there is one (the size of the process group) and it left neither recording nor trace. The others
are reported as they are, but none of them can tell whether it waits for that one, so:

- the report says which are missing, in its health (`find_absences`), in `run.missing_ranks`, and in the table of ranks (`not recorded`);
- a rank that spends a tenth of its time in collectives, for which nothing else is to blame, has an open verdict (`beside_missing` of a
  recorded rank, `late_one_may_be_missing` of a traced one);
- who sets the pace is said of the ranks that are here (`among_those_here`), and what overlapping collectives would gain assumes that the
  missing ones are not late (`assumed_of_others`), with the advice to look at them first (`compare_with_missing`).

Ranks that were recorded and never updated are idle, those of other machines or launchers are elsewhere: both are told, and open nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from slowstep.analyses.job.job import Job, TracedRank
from slowstep.analyses.job.late_rank import RankComparison
from slowstep.diagnosis.healthy import OVERLAP_NOT_KNOWN
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.findings import Fix, Verdict
from slowstep.health import Health, Severity
from slowstep.reasons import Reason, Wording
from slowstep.units import format_count

# Ranks that a sentence names.
NAMED: Final = 8
NOT_NAMED: Final = "neither these traces nor their names tell the rank: numbered in the order of names, and of process ids within a file"
SEE_WHY: Final = "see why it is not recorded"
OTHERS_IN_TIME: Final = "no other rank became late"

LATE_ONE_NOT_RECORDED: Final = Wording(
    "late-one-not-recorded",
    "{share:share} of the time goes into sharing gradients and waiting for other ranks, and whether this one waits for rank {missing}, "
    "which left no recording, is not seen; {remedy}",
)
LATE_ONE_MAY_BE_MISSING: Final = Wording(
    "late-one-may-be-missing",
    "{share:share} of the time is {stage}, and whether this rank waits for one of the {missing} without a trace here is not seen: "
    "analyze the folder of all ranks' traces",
)
RANKS_HERE: Final = Wording("ranks-here", "of the {seen} of {size} ranks here ")


def beside_missing(diagnosis: Diagnosis, missing: Sequence[int]) -> Diagnosis:
    """The diagnosis of a recorded rank whose job lacks the ranks `missing`."""
    verdict = diagnosis.verdict
    if not missing or verdict.reason is None or verdict.reason.wording is not OVERLAP_NOT_KNOWN:
        return diagnosis
    named = ", ".join(map(str, missing))
    reason = LATE_ONE_NOT_RECORDED(share=verdict.reason.values["share"], missing=named, remedy=SEE_WHY)
    return replace(diagnosis, verdict=replace(verdict, reason=reason), change=SEE_WHY)


def late_one_may_be_missing(verdict: Verdict, compared: RankComparison) -> Verdict:
    """The open verdict of a traced rank that may wait for one of those without a trace."""
    if verdict.reason is None or verdict.reason.wording is not LATE_ONE_NOT_SEEN or compared.is_whole:
        return verdict
    return replace(verdict, reason=LATE_ONE_MAY_BE_MISSING(**verdict.reason.values, missing=compared.missing))


def among_those_here(compared: RankComparison) -> Reason | None:
    """Of which ranks something is said, where that is not all of the job."""
    return None if compared.is_whole else RANKS_HERE(seen=len(compared.standings), size=compared.size)


def assumed_of_others(compared: RankComparison) -> str:
    """What the gain of faster collectives assumes of the other ranks."""
    return OTHERS_IN_TIME if compared.is_whole else f"{OTHERS_IN_TIME} ({compared.missing} of them were not recorded)"


def compare_with_missing(compared: RankComparison) -> tuple[Fix, ...]:
    """The advice to look at the ranks that are not here; none where all are."""
    if compared.is_whole:
        return ()
    rest = f"compare with the {format_count(compared.missing, 'rank')} without a trace here; where one is late, its own cause comes first"
    return (Fix(text=rest),)


def find_absences(job: Job, reported: Iterable[int]) -> list[Health]:
    """Which ranks of a job are not among those `reported`, and why."""
    rows: list[Health] = []

    def add(name: str, severity: Severity, count: int, remedy: str) -> None:
        if count:
            rows.append(Health(name=name, severity=severity, count=count, remedy=remedy))

    unnamed = sum(isinstance(rank, TracedRank) and not rank.is_told for rank in job.ranks)
    short = sorted({rank.number for rank in job.ranks} - set(reported))
    add("missing-ranks", "notice", job.missing_count, _missing(job))
    add("ranks-not-named", "notice", unnamed if len(job.ranks) > 1 else 0, NOT_NAMED)
    add("idle-ranks", "notice", len(job.idle), f"{name_ranks(job.idle)} joined the process group and never called an optimizer")
    add("short-trainings", "notice", len(short), f"{name_ranks(short)}: too few steps were recorded for a report")
    add("earlier-attempts", "info", job.repeated, "processes whose rank another one took over later: a restarted job; not in the table")
    add("ranks-elsewhere", "info", job.elsewhere, "they run on other machines or under launchers of their own, and are recorded there")
    return rows


def name_ranks(numbers: Sequence[int]) -> str:
    """Ranks by their numbers, the first of them where there are many."""
    text = ", ".join(map(str, numbers[:NAMED])) + (f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else "")
    return f"rank {text}" if len(numbers) == 1 else f"ranks {text}"


def _missing(job: Job) -> str:
    if job.source == "traces":
        return f"only {len(job.ranks)} of {job.size} ranks have a trace here: what the others did is not known"
    here = "of those on this machine " if job.elsewhere else ""
    return f"of {job.size} ranks {here}{name_ranks(job.missing)} left no recording: see how their processes started"
