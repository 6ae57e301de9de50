"""What other ranks' traces change in the diagnosis of one: what it waits for a later rank is that one's doing, and nothing is blamed here.

A rank by itself cannot tell waiting from sending, so that its collectives look like a bottleneck where another rank is late, and the late
one looks healthy: it waits for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from slowstep.analyses.sharing import STAGE
from slowstep.analyses.trace.ranks import Compared
from slowstep.diagnosis.law import Diagnosis, is_bottleneck, larger_unknown
from slowstep.diagnosis.trace_engine import LATE_ONE_NOT_SEEN
from slowstep.diagnosis.waited_collectives import not_judged, without_waiting
from slowstep.findings import Finding, NotJudged, Verdict
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.units import format_share

BECAUSE: Final = "undetermined, because "
NONE_LATER: Final = "no other rank is clearly later: try fewer, larger exchanges"


def among_ranks(diagnosis: Diagnosis, compared: Compared, rank: int, *, shares: Mapping[str, float]) -> Diagnosis:
    """A rank's diagnosis, with what is known of the others; `shares` are those of its stages in its time."""
    standing = compared.standings[rank]
    findings: list[Finding] = []
    unjudged: list[NotJudged] = []
    for finding in diagnosis.findings:
        left = without_waiting(finding, standing, compared) if finding.stage == STAGE else finding
        findings += [] if left is None else [left]
        unjudged += not_judged((finding.rule, *finding.also), standing, compared) if left is None else []
    findings.sort(key=lambda finding: (finding.advisory, not is_bottleneck(finding), -(finding.gain.predicted or 0.0)))
    return replace(
        diagnosis,
        findings=tuple(findings),
        not_judged=(*diagnosis.not_judged, *unjudged),
        verdict=_verdict(diagnosis.verdict, findings, unjudged, compared, rank, shares),
        next=diagnosis.next if _removed(findings) == _removed(diagnosis.findings) else None,
    )


def _removed(findings: Sequence[Finding]) -> tuple[str, float | None] | None:
    """Of what the stage that binds next was told: the first finding and its gain."""
    return (findings[0].rule, findings[0].gain.predicted) if findings else None


def pace(compared: Compared, rank: int | None = None) -> str | None:
    """Who holds up the job, by how much, and what evening it out would gain; None where nobody does. `rank` is called "this rank"."""
    if not compared.is_uneven and not any(standing.waits for standing in compared.standings.values()):
        return None
    here = "" if compared.is_whole else f"of the {len(compared.standings)} of {compared.size} ranks here "
    gain = f"; evening the ranks out would gain {compared.gain_at_most:.2f}x at most" if compared.is_uneven else ""
    if compared.is_uneven and not compared.is_one:
        return f"{here}in each step another rank is the last, and the others wait for it{gain}"
    who = "this rank" if rank == compared.slowest else f"rank {compared.slowest}"
    goes = f"{who} sets the pace of the job" if compared.is_whole else f"{here}{who} is the last"
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
    of_others = LATE_ONE_NOT_SEEN.replace("a late one", f"one of the {compared.missing} without a trace here")
    late = NONE_LATER if compared.is_whole else of_others
    return replace(verdict, summary=verdict.summary.replace(LATE_ONE_NOT_SEEN, late))


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
        f"what this rank waits for later ones leaves {most.rule} {format_share(most.share)} of the time, whose gain may be "
        "none; trace more steps"
    )


def _ms(ns: float) -> str:
    return f"{_number(ns)} ms"


def _number(ns: float) -> str:
    return f"{ns / 1e6:.1f}"
