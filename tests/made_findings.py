"""Builds a finding from what tests need of one."""

from __future__ import annotations

from slowstep.findings import Evidence, EvidenceCode, Finding, Fix, Gain
from slowstep.parts import Part


def claiming(*claims: Part, rule: str = "r", stage: str = "compute", operation: str | None = None) -> Finding:
    """A finding that claims these parts, or names an operation."""
    return Finding(
        rule=rule,
        stage=stage,
        title="it is there",
        share=0.3,
        share_low=0.2,
        share_high=0.4,
        claims=claims,
        evidence=(Evidence(name="what", value=operation, unit="", code=None if operation is None else EvidenceCode.OPERATION),),
        gain=Gain(predicted=None, low=None, high=None, assumes="it goes"),
        fixes=(Fix(text="mend it"),),
    )
