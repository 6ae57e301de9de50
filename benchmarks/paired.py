"""Pure: paired differences between arms that ran in the same rounds, with their interval."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A median over rounds and its 90 % interval (bootstrap over rounds)."""

    value: float
    low: float
    high: float

    def shown(self, digits: int = 1) -> str:
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def paired_difference(arm: Sequence[float], base: Sequence[float]) -> Estimate:
    """Median of arm - base over rounds. Assumes rounds independent, load equal within one."""
    return estimate([a - b for a, b in zip(arm, base, strict=True)])


def paired_ratio(arm: Sequence[float], base: Sequence[float]) -> Estimate:
    """Median of arm / base - 1 over rounds."""
    return estimate([a / b - 1 for a, b in zip(arm, base, strict=True)])


def estimate(values: Sequence[float]) -> Estimate:
    """Median and interval of one value per round. Raises ValueError when there is none."""
    if not values:
        raise ValueError("no round was measured: an estimate needs at least one")
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return Estimate(value=statistics.median(values), low=medians[int(0.05 * RESAMPLES)], high=medians[int(0.95 * RESAMPLES) - 1])
