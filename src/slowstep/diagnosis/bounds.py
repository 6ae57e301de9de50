"""What it changes of a finding that its part of the ledger is known within bounds only: both ends of its share, and of its gain.

Rules measure what surely is a part's. So a finding may claim more than it says, and its gain be larger; it is no bottleneck for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.findings import Gain


def judged_within_bounds(judge: Callable[[Measurements], Answer], m: Measurements) -> Answer:
    """The answer of a rule, with the bounds of what it claims."""
    answer = judge(m)
    if not isinstance(answer, Judged) or not answer.finding.claims or m.ledger.high is None:
        return answer
    claims = [part.whole for part in answer.finding.claims]
    low, high = (end / m.ledger.whole for end in m.ledger.bounds(*claims))
    less, more = m.ledger.share_of(*claims) - low, high - m.ledger.share_of(*claims)
    finding = answer.finding
    finding = replace(
        finding,
        share_low=max(finding.share_low - less, 0.0),
        share_high=min(finding.share_high + more, 1.0),
        gain=_widened(finding.gain, less, more),
    )
    return replace(answer, finding=finding)


def _widened(gain: Gain, less: float, more: float) -> Gain:
    """The gain if so much less, or more, of the window were taken away; without a high end where all of it may be."""
    left = None if gain.high is None else 1 / gain.high - more
    return replace(
        gain,
        low=_less_taken(gain.low, less),
        high=None if left is None or left <= 0 else 1 / left,
        steady_low=_less_taken(gain.steady_low, less),
    )


def _less_taken(gain: float | None, less: float) -> float | None:
    return 1 / (1 / gain + less) if gain else gain
