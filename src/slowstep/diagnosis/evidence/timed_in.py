"""In how many places calls or lines were timed, which tells how well a share is known."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.findings import Evidence, EvidenceCode

GAPS = "gaps between steps"
STEPS = "steps"


def timed_in(m: Measurements, count: int | None, unit: str = GAPS) -> Evidence:
    """So many gaps or steps, of all steps."""
    return Evidence(name="timed in", value=count, unit=unit, where=f"of {m.steps.count:,}", code=EvidenceCode.TIMED_IN)
