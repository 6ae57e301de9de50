"""What a value is that was measured on a machine and stands for others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TWO_CORES: Final = "two cores of a shared virtual machine (AMD EPYC or Intel Xeon), torch 2.13 on them"


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A measured value and where it comes from; `measured_by` makes it again, or says how it was measured where no script is kept.

    `low` and `high` are what is assumed at the ends of intervals, where that was measured too.
    """

    value: float
    unit: str
    meaning: str
    machine: str
    measured_by: str
    date: str
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """`low` and `high`, or the value where there is none."""
        return self.value if self.low is None else self.low, self.value if self.high is None else self.high
