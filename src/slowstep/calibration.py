"""Values that were measured on a machine and stand for others, each with its unit, its machine, what measured it, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A measured value and where it comes from; `measured_by` makes it again."""

    value: float
    unit: str
    meaning: str
    machine: str
    measured_by: str
    date: str


BETWEEN_STARTS: Final = Calibration(
    value=0.062,
    unit="standard deviation of ln(samples/s)",
    meaning="how far the speed of one start of a script is from its mean over starts; 95 % of 753 pairs of starts were within it",
    machine="shared virtual machines of 2 cores (AMD EPYC, Intel Xeon) that nothing else used; torch 2.13 on their processors",
    measured_by="benchmarks/between_starts.py, from the stored results of accuracy.py and prove.py",
    date="2026-11-20 to 2026-11-27",
)
