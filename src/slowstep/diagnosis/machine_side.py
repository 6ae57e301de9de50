"""What the rules about the machine have in common: advice, and gains that are not known."""

from __future__ import annotations

from slowstep.diagnosis.rule import Judged
from slowstep.findings import Evidence, Finding, Fix, Gain

MIB = 2.0**20
GIB = 2.0**30


def unknown_gain(assumes: str) -> Gain:
    """A gain that cannot be predicted, with the assumption that it rests on."""
    return Gain(predicted=None, low=None, high=None, assumes=assumes)


def advice(
    rule: str, stage: str, title: str, evidence: tuple[Evidence, ...], assumes: str, fixes: tuple[str, ...], *, share: float = 0.0
) -> Judged:
    """A finding that is worth knowing, claims no time and decides no verdict."""
    finding = Finding(
        rule=rule,
        stage=stage,
        title=title,
        share=share,
        share_low=0.0,
        share_high=share,
        claims=(),
        evidence=evidence,
        gain=unknown_gain(assumes),
        fixes=tuple(Fix(text=text) for text in fixes),
        advisory=True,
    )
    return Judged(finding=finding, counterfactual=None)
