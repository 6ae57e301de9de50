"""What the other ranks' traces change in the diagnosis of one: what it waits for a later rank is that rank's doing, and nothing is blamed here.

A rank by itself cannot tell waiting from sending, so that its collectives look like a bottleneck where another rank is late, and the late
one looks healthy: it waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from slowstep.analyses.sharing import STAGE
from slowstep.analyses.trace.ranks import Compared, Standing
from slowstep.diagnosis.law import UNJUDGED_STAGE, Diagnosis, is_bottleneck, larger_unknown
from slowstep.diagnosis.rules.exposed_communication import COMPARE_RANKS, NOT_SEEN
from slowstep.diagnosis.trace_engine import LATE_ONE_NOT_SEEN
from slowstep.findings import Evidence, Finding, Gain, NotJudged, Verdict
from slowstep.stages import STAGES, UNATTRIBUTED

BECAUSE: Final = "undetermined, because "
NONE_LATER: Final = "no other rank is clearly later: try fewer, larger exchanges, by gradient accumulation under no_sync()"
# What the screen rounds to a percent.
SAID_FROM: Final = 0.005
OTHERS_IN_TIME: Final = "no other rank becomes late"


def among_ranks(diagnosis: Diagnosis, compared: Compared, rank: int, *, shares: Mapping[str, float]) -> Diagnosis:
    """A rank's diagnosis, with what is known of the others; `shares` are those of its stages in its time."""
    standing = compared.standings[rank]
    findings: list[Finding] = []
    unjudged: list[NotJudged] = []
    for finding in diagnosis.findings:
        left = _left(finding, standing, compared) if finding.stage == STAGE else finding
        findings += [] if left is None else [left]
        unjudged += _not_judged((finding.rule, *finding.also), standing, compared) if left is None else []
    first = findings[0] if findings else None
    kept = bool(diagnosis.findings) and first is diagnosis.findings[0]
    return replace(
        diagnosis,
        findings=tuple(findings),
        not_judged=(*diagnosis.not_judged, *unjudged),
        verdict=_verdict(diagnosis.verdict, findings, unjudged, compared, rank, shares),
        next=diagnosis.next if kept else None,
    )


def pace(compared: Compared, rank: int | None = None) -> str | None:
    """Who holds up the job, by how much, and what evening it out would gain; None where nobody does. `rank` is called "this rank"."""
    if not compared.is_uneven and not any(standing.waits for standing in compared.standings.values()):
        return None
    here = "" if compared.is_whole else f"of the {len(compared.standings)} of {compared.size} ranks here "
    gain = f"; evening the ranks out would gain {compared.gain_at_most:.2f}x at most" if compared.is_uneven else ""
    if compared.is_uneven and not compared.is_one:
        return f"{here}in each step another rank is the last, and the others wait for it{gain}"
    who = "this rank" if rank == compared.slowest else f"rank {compared.slowest}"
    goes = f"the job goes at the pace of {who}" if compared.is_whole else f"{here}{who} is the last"
    often = "" if compared.last_in in (None, compared.steps) else f" (the last in {compared.last_in} of {compared.steps} steps)"
    slowest, fastest = (_ms(compared.standings[number].own_ns) for number in (compared.slowest, compared.fastest))
    return f"{goes}{often}: its own work takes {slowest} per step, that of rank {compared.fastest} {fastest}{gain}"


def look_at(compared: Compared, rank: int) -> int | None:
    """The rank whose report says more of why the job is slow than this one's; None where none does."""
    held_up = compared.standings[rank].waits or (compared.is_uneven and compared.is_one)
    return compared.slowest if held_up and rank != compared.slowest else None


def _verdict(
    verdict: Verdict,
    findings: list[Finding],
    unjudged: list[NotJudged],
    compared: Compared,
    rank: int,
    shares: Mapping[str, float],
) -> Verdict:
    standing = compared.standings[rank]

    def undetermined(why: str) -> Verdict:
        largest = max(STAGES, key=lambda stage: shares.get(stage, 0.0))
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=f"{BECAUSE}{why}")

    if standing.waits:
        taken = f"{_ms(compared.standings[compared.slowest].own_ns)} per step against {_number(standing.own_ns)} here"
        return undetermined(f"this rank waits for rank {compared.slowest}, whose own work takes {taken}: look at the report of that one")
    if verdict.state == "bottleneck":
        first = next((finding for finding in findings if is_bottleneck(finding)), None)
        unknown = None if first is None else larger_unknown(shares.get(UNATTRIBUTED, 0.0), first, shares.get(first.stage, 0.0))
        if unknown is not None:
            return undetermined(f"{unknown}; trace the host too")
        if first is not None:
            return replace(verdict, stage=first.stage, rule=first.rule, summary=first.title)
    held_up = pace(compared, rank) if compared.is_uneven else None
    still = verdict.state == "undetermined" and not unjudged and LATE_ONE_NOT_SEEN not in verdict.summary
    if held_up is not None and still:
        return undetermined(f"{held_up}; and {verdict.summary.removeprefix(BECAUSE)}")
    if held_up is not None:
        return undetermined(f"{held_up}: {_advice(compared, rank)}")
    if verdict.state == "bottleneck" or (verdict.state == "undetermined" and unjudged):
        return undetermined(_without_bottleneck(findings, unjudged))
    if compared.is_whole and LATE_ONE_NOT_SEEN in verdict.summary:
        return replace(verdict, summary=verdict.summary.replace(LATE_ONE_NOT_SEEN, NONE_LATER))
    return verdict


def _advice(compared: Compared, rank: int) -> str:
    if not compared.is_one:
        return "give all of them batches of equal length and size in each step"
    if rank != compared.slowest:
        return "look at the report of that one"
    return "look for what only this rank does or has (longer batches, logging, checkpoints, a slower device)"


def _without_bottleneck(findings: list[Finding], unjudged: list[NotJudged]) -> str:
    """Why a rank is not known to be healthy whose collectives were its bottleneck before the other ranks were looked at."""
    if unjudged:
        return f"{unjudged[0].rule} could not be judged: {unjudged[0].reason}"
    most = max((finding for finding in findings if finding.stage == STAGE), key=lambda finding: finding.share)
    return (
        f"what this rank waits for later ones leaves {most.rule} {most.share:.0%} of the time, whose gain may be nothing; trace more steps"
    )


def _left(finding: Finding, standing: Standing, compared: Compared) -> Finding | None:
    """A finding about collectives without what this rank waits in them for later ranks; None where that leaves too little to judge."""
    waited = standing.waited_ns / standing.step_ns
    share = finding.share - waited
    if standing.waits or (waited and share < UNJUDGED_STAGE):
        return None
    row = Evidence(name="waiting for later ranks", value=standing.waited_ns / 1e6, unit="ms")
    low, high = max(finding.share_low - waited, 0.0), max(finding.share_high - waited, share)
    gain = _gain(finding.gain, low, share, high)
    fixes = finding.fixes
    if compared.is_whole:
        gain = replace(gain, assumes=gain.assumes.replace(NOT_SEEN, OTHERS_IN_TIME))
        fixes = tuple(fix for fix in fixes if fix.text != COMPARE_RANKS)
    for_whom = f"; for {waited:.0%} of it this rank waits for later ones" if waited >= SAID_FROM else ""
    return replace(
        finding,
        title=f"{finding.title}{for_whom}",
        share=share,
        share_low=low,
        share_high=high,
        evidence=(*finding.evidence, row),
        gain=gain,
        fixes=fixes or finding.fixes,
    )


def _gain(gain: Gain, low: float, share: float, high: float) -> Gain:
    """Removing no more of the step than is left of the finding: what is beside the backward is either hidden or waited for anyway."""
    if gain.predicted is None or gain.low is None or gain.high is None:
        return gain
    predicted = _at_most(gain.predicted, share)
    return replace(gain, predicted=predicted, low=min(_at_most(gain.low, low), predicted), high=max(_at_most(gain.high, high), predicted))


def _at_most(gain: float, share: float) -> float:
    return min(gain, 1 / (1 - share))


def _not_judged(rules: Iterable[str], standing: Standing, compared: Compared) -> list[NotJudged]:
    whom = f"rank {compared.slowest}, whose own work takes longer" if standing.waits else "ranks that are later in the same step"
    waited = f"of {_ms(standing.shared_ns)} per step in collectives this rank waits {_number(standing.waited_ns)} for {whom}"
    return [NotJudged(rule=rule, reason=f"{waited}: that comes first") for rule in rules]


def _ms(ns: float) -> str:
    return f"{_number(ns)} ms"


def _number(ns: float) -> str:
    return f"{ns / 1e6:.1f}"
