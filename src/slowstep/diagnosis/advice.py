"""Advice: findings that are worth knowing, claim no time and decide no verdict."""

from __future__ import annotations

from slowstep.diagnosis.gain import unknown_gain
from slowstep.diagnosis.rule import Judged
from slowstep.findings import Evidence, Finding, Fix


def advice(
    rule: str,
    stage: str,
    title: str,
    evidence: tuple[Evidence, ...],
    assumes: str,
    fixes: tuple[str | Fix, ...],
    *,
    share: float = 0.0,
    urgent: bool = False,
    outside: bool = False,
    opens_with_name: bool = False,
) -> Judged:
    """A finding of advice; `share` (of the window, 0 to 1) is only shown, and what is `urgent` before all others. What lies `outside` the
    script is noted, not numbered.
    """
    finding = Finding(
        rule=rule,
        stage=stage,
        title=title,
        opens_with_name=opens_with_name,
        share=share,
        share_low=0.0,
        share_high=share,
        claims=(),
        evidence=evidence,
        gain=unknown_gain(assumes),
        fixes=tuple(fix if isinstance(fix, Fix) else Fix(text=fix) for fix in fixes),
        advisory=True,
        urgent=urgent,
        outside=outside,
    )
    return Judged(finding=finding, counterfactual=None)
