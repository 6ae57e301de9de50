"""What the other ranks change in the diagnosis of one: what it waits for a later rank is that one's doing, and nothing is blamed here.

A rank by itself cannot tell waiting from sending, so that its collectives look like a bottleneck where another rank is late, and the late
one looks healthy: it waits for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from slowstep.analyses.job.late_rank import RankComparison
from slowstep.analyses.sharing.sharing import STAGE
from slowstep.diagnosis.law import RULE_NOT_JUDGED, WAITS_FOR_RANK, Diagnosis, is_bottleneck, larger_unknown, undetermined
from slowstep.diagnosis.missing_ranks import among_compared, late_one_may_be_missing, later_one_may_be_missing
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.diagnosis.waited_collectives import not_judged, without_waiting
from slowstep.findings import Finding, NotJudged, Verdict
from slowstep.reasons import Reason, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

TRACE_THE_HOST: Final = "trace the host too"

LAST_IN_TURN: Final = Wording("last-in-turn", "{here}in each step another rank is the last, and the others wait for it{gain}")
SETS_THE_PACE: Final = Wording(
    "sets-the-pace",
    "{who} sets the pace of the job{often}: its own work takes {own_ns:ms} ms per step, that of rank {fastest} {fastest_ns:ms} ms{gain}",
)
IS_THE_LAST: Final = Wording(
    "is-the-last",
    "{here}{who} is the last{often}: its own work takes {own_ns:ms} ms per step, that of rank {fastest} {fastest_ns:ms} ms{gain}",
)
LAST_OFTEN: Final = Wording("last-often", " (the last in {times} of {steps} steps)")
EVENING_OUT: Final = Wording("evening-out", "; evening the ranks out would gain {gain:ratio} at most")

UNEVEN_AND_MORE: Final = Wording("uneven-and-more", "{pace}; and {reason}")
UNEVEN_IN_TURN: Final = Wording("uneven-in-turn", "{pace}: give all of them batches of equal length and size in each step")
OTHER_IS_LATE: Final = Wording("other-is-late", "{pace}: look at the report of that one")
THIS_IS_LATE: Final = Wording(
    "this-is-late", "{pace}: look for what only this rank does or has (longer batches, logging, checkpoints, a slower device)"
)
MOSTLY_WAITING: Final = Wording(
    "mostly-waiting",
    "what this rank waits for later ones leaves {rule} {share:share} of the time, whose gain may be nothing; trace more steps",
)
NONE_LATER: Final = Wording(
    "none-later", "{share:share} of the time is {stage:stage}, and no other rank is clearly later: try fewer, larger exchanges"
)


def among_ranks(diagnosis: Diagnosis, compared: RankComparison, rank: int, *, shares: Mapping[str, float]) -> Diagnosis:
    """A rank's diagnosis, with what is known of the others; `shares` are those of its stages in its time."""
    standing = compared.standings[rank]
    findings: list[Finding] = []
    unjudged: list[NotJudged] = []
    for finding in diagnosis.findings:
        left = without_waiting(finding, standing, compared) if finding.stage == STAGE else finding
        findings += [] if left is None else [left]
        unjudged += not_judged((finding.rule, *finding.also), standing, compared) if left is None else []
    is_changed = tuple(findings) != diagnosis.findings
    if is_changed:
        findings.sort(key=lambda finding: (finding.advisory, not is_bottleneck(finding), -(finding.gain.predicted or 0.0)))
    verdict = diagnosis.verdict
    if standing.waits or is_changed or verdict.state != "bottleneck":
        verdict = _verdict(verdict, findings, unjudged, compared, rank, shares)
    return replace(
        diagnosis,
        findings=tuple(findings),
        not_judged=(*diagnosis.not_judged, *unjudged),
        verdict=verdict,
        next=diagnosis.next if _removed(findings) == _removed(diagnosis.findings) else None,
        # What would tell more of this rank alone is not what holds it up.
        deciding_levers=None if standing.waits else diagnosis.deciding_levers,
        change=None if standing.waits else diagnosis.change,
        by_fault=diagnosis.by_fault and not standing.waits,
    )


def _removed(findings: Sequence[Finding]) -> tuple[str, float | None] | None:
    """Of what the stage that binds next was told: the first finding and its gain."""
    return (findings[0].rule, findings[0].gain.predicted) if findings else None


def pace(compared: RankComparison, rank: int | None = None) -> Reason | None:
    """Who holds up the job, by how much, and what evening it out would gain; None where nobody does. `rank` is called "this rank"."""
    if not compared.is_uneven and not compared.somebody_waits:
        return None
    here = among_compared(compared)
    gain = EVENING_OUT(gain=compared.gain_at_most) if compared.is_uneven else None
    if compared.is_uneven and not compared.is_one:
        return LAST_IN_TURN(here=here, gain=gain)
    always = compared.last_in in (None, compared.steps)
    wording, where = (SETS_THE_PACE, {}) if here is None else (IS_THE_LAST, {"here": here})
    return wording(
        **where,
        who="this rank" if rank == compared.slowest else f"rank {compared.slowest}",
        often=None if always else LAST_OFTEN(times=compared.last_in, steps=compared.steps),
        own_ns=compared.standings[compared.slowest].own_ns,
        fastest=compared.fastest,
        fastest_ns=compared.standings[compared.fastest].own_ns,
        gain=gain,
    )


def look_at(compared: RankComparison, rank: int) -> int | None:
    """The rank whose report says more of why the job is slow than this one's; None where none does."""
    held_up = compared.standings[rank].waits or (compared.is_uneven and compared.is_one)
    return compared.slowest if held_up and rank != compared.slowest else None


def _verdict(
    verdict: Verdict,
    findings: list[Finding],
    unjudged: list[NotJudged],
    compared: RankComparison,
    rank: int,
    shares: Mapping[str, float],
) -> Verdict:
    standing, largest = compared.standings[rank], max(STAGES, key=lambda stage: shares.get(stage, 0.0))
    if standing.waits:
        theirs_ns = compared.standings[compared.slowest].own_ns
        missing = later_one_may_be_missing(compared)
        return undetermined(largest, WAITS_FOR_RANK(rank=compared.slowest, theirs_ns=theirs_ns, own_ns=standing.own_ns, missing=missing))
    if verdict.state == "bottleneck" and (first := next((finding for finding in findings if is_bottleneck(finding)), None)) is not None:
        unknown = larger_unknown(shares.get(UNATTRIBUTED, 0.0), first, shares.get(first.stage, 0.0), lambda: TRACE_THE_HOST)
        return replace(verdict, stage=first.stage, rule=first.rule) if unknown is None else undetermined(largest, unknown)
    reason = verdict.reason
    late_unseen = reason is not None and reason.wording is LATE_ONE_NOT_SEEN
    held_up = pace(compared, rank) if compared.is_uneven else None
    if held_up is not None and verdict.state == "undetermined" and not unjudged and not late_unseen:
        return undetermined(largest, UNEVEN_AND_MORE(pace=held_up, reason=reason))
    if held_up is not None:
        return undetermined(largest, _uneven(compared, rank)(pace=held_up))
    if verdict.state == "bottleneck" or (verdict.state == "undetermined" and unjudged):
        return undetermined(largest, _without_bottleneck(findings, unjudged))
    if reason is not None and late_unseen and compared.is_whole:
        return replace(verdict, reason=NONE_LATER(**reason.values))
    return late_one_may_be_missing(verdict, compared)


def _uneven(compared: RankComparison, rank: int) -> Wording:
    """What to do about the pace of the job, which this rank sets or waits for."""
    if not compared.is_one:
        return UNEVEN_IN_TURN
    return OTHER_IS_LATE if rank != compared.slowest else THIS_IS_LATE


def _without_bottleneck(findings: list[Finding], unjudged: list[NotJudged]) -> Reason:
    """Why a rank is not known to be healthy whose collectives were its bottleneck before the other ranks were looked at."""
    if unjudged:
        return RULE_NOT_JUDGED(rule=unjudged[0].rule, reason=unjudged[0].reason)
    most = max((finding for finding in findings if finding.stage == STAGE), key=lambda finding: finding.share)
    return MOSTLY_WAITING(rule=most.rule, share=most.share)
