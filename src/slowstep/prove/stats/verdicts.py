"""How the arms of levers went, and the verdicts on them, as the report says them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class GainVerdict(StrEnum):
    """What is said of a lever's gain."""

    PROVED = "proved"
    REFUTED = "refuted"
    OPEN = "cannot distinguish"
    # Of a lever that does more than the fix, and gains: the fix gains as much at most.
    UPPER_BOUND = "upper bound"
    # Of one that spoils the training, however fast it makes it.
    NOT_FINITE = "loss not finite"


class ArmState(StrEnum):
    """How the arm of a lever went, as report.json says it."""

    MEASURED = "measured"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"
    UNMEASURED = "unmeasured"  # its runs were not begun, or ended before there was a second pair


# Those that settle what a finding's fix gains.
SETTLED: Final = (GainVerdict.PROVED, GainVerdict.REFUTED)
