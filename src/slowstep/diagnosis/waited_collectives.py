"""What a rank's collectives cost beside its waiting in them for later ranks: that part of a finding about them is no fault of theirs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from slowstep.analyses.job.late_rank import RankComparison, Standing
from slowstep.diagnosis.law import UNJUDGED_STAGE
from slowstep.diagnosis.missing_ranks import assumed_of_others, compare_with_others
from slowstep.diagnosis.rule import CLAIM
from slowstep.diagnosis.rules.sharing.exposed_communication import COMPARE_RANKS, NAME, assumes
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.reasons import Wording
from slowstep.shares import MOSTLY
from slowstep.units import format_share

# What the screen rounds to a percent.
SAID_FROM: Final = 0.005

WAITS_IN_COLLECTIVES: Final = Wording(
    "waits-in-collectives",
    "of {shared_ns:ms} ms per step in collectives this rank waits {waited_ns:ms} for {whom}: that comes first",
)


def without_waiting(finding: Finding, standing: Standing, compared: RankComparison) -> Finding | None:
    """A finding about collectives without what this rank waits in them for later ranks; None where that leaves too little to judge.

    Of the waiting it has the part that it has of the collectives.
    """
    part = min(finding.share * standing.step_ns / max(standing.shared_ns, 1.0), 1.0)
    waited = part * standing.waited_ns / standing.step_ns
    share = finding.share - waited
    # A finding of which waiting is less than this part is about the collectives themselves, however small it is.
    if standing.waits or share < CLAIM or (waited >= MOSTLY * finding.share and share < UNJUDGED_STAGE):
        return None
    row = Evidence(name="waiting for later ranks", value=part * standing.waited_ns / 1e6, unit="ms")
    low, high = max(finding.share_low - waited, 0.0), max(finding.share_high - waited, share)
    gain = _gain(finding.gain, low, share, high)
    gain = replace(gain, assumes=assumes(assumed_of_others(compared))) if finding.rule == NAME else gain
    for_whom = f"; for {format_share(waited)} of it this rank waits for later ones" if waited >= SAID_FROM else ""
    return replace(
        finding,
        title=f"{finding.title}{for_whom}",
        share=share,
        share_low=low,
        share_high=high,
        evidence=(*finding.evidence, row),
        gain=gain,
        fixes=_fixes(finding, compared),
    )


def _fixes(finding: Finding, compared: RankComparison) -> tuple[Fix, ...]:
    """Those of the finding, of which comparing the ranks was done as far as there are traces."""
    others = tuple(fix for fix in finding.fixes if fix != COMPARE_RANKS)
    if len(others) == len(finding.fixes):
        return finding.fixes
    return (*others, *compare_with_others(compared)) or finding.fixes


def _gain(gain: Gain, low: float, share: float, high: float) -> Gain:
    """Removing no more of the step than is left of the finding: what is beside the backward is either hidden or waited for anyway."""
    if gain.predicted is None or gain.low is None:
        return gain
    predicted = _at_most(gain.predicted, share)
    return replace(
        gain,
        predicted=predicted,
        low=min(_at_most(gain.low, low), predicted),
        high=max(_at_most(math.inf if gain.high is None else gain.high, high), predicted),
    )


def _at_most(gain: float, share: float) -> float:
    return min(gain, 1 / (1 - share))


def not_judged(rules: Iterable[str], standing: Standing, compared: RankComparison) -> list[NotJudged]:
    """Why these rules cannot judge a rank whose collectives are mostly waiting."""
    whom = f"rank {compared.slowest}, whose own work takes longer" if standing.waits else "ranks that are later in the same step"
    reason = WAITS_IN_COLLECTIVES(shared_ns=standing.shared_ns, waited_ns=standing.waited_ns, whom=whom)
    return [NotJudged(rule=rule, reason=reason) for rule in rules]
