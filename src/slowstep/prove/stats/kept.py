"""What a lever leaves in its arm of the very thing that it takes away: the first batch of each validation. Pure.

Its time was measured, so what the fix gains, which leaves none of it, lies between two figures. The low one is the gain as measured. The
high one is the gain without that time: too high where the training waits for something else meanwhile (a device, its loader's workers).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from slowstep.prove.stats.intervals import LogRatio
from slowstep.prove.stats.judging import ArmFigures
from slowstep.prove.stats.readings import ExperimentSteps

# What a lever notes of it: ns in the counted steps of its arm, and of one validation.
KEPT: Final = "kept_ns"
KEPT_EACH: Final = "kept_each_ns"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRatioBounds:
    """The logarithm of a ratio of throughputs that is at least `least`, and at most `most`, which is what it is expected to be."""

    least: LogRatio
    most: LogRatio

    @property
    def factor(self) -> float:
        """The ratio that is expected."""
        return self.most.factor

    def low(self, tail: float) -> float:
        """The factor that the true one is under with a chance of no more than `tail`."""
        return self.least.low(tail)

    def high(self, tail: float) -> float:
        """The factor that the true one is over with a chance of no more than `tail`."""
        return self.most.high(tail)

    def chance_over(self, factor: float) -> float:
        """The largest chance to measure so much, or more, if `factor` were true."""
        return self.least.chance_over(factor)

    def chance_under(self, factor: float) -> float:
        """The largest chance to measure so little, or less, if `factor` were true."""
        return self.most.chance_under(factor)


@dataclass(frozen=True, kw_only=True, slots=True)
class WithKept:
    """An arm in which a share of the time is what its lever has left there."""

    log_ratio: LogRatioBounds
    rounds: int

    def hides(self, worth: float) -> bool:
        """Whether more than `worth` would be seen, were nothing left there, and is not as measured: more rounds would not tell."""
        return self.log_ratio.least.factor <= worth < self.log_ratio.most.interval().low


def kept_share(facts: Mapping[str, Any], steps: ExperimentSteps, arm: int) -> float:
    """The share of the counted time of an arm that is what its levers have left there; 0 where they noted nothing of it."""
    ns = float(steps.ns[(steps.arm == arm) & ~steps.settling].sum())
    kept = float(facts.get(KEPT) or 0)
    # A plan that is cut short may have steps of which no block was noted: never a share over 1.
    return kept / ns if 0 < kept < ns else 0.0


def with_kept(found: ArmFigures, log_ratio: LogRatio, share: float) -> ArmFigures:
    """What is known of an arm's gain, of which `log_ratio` was measured; the same arm where nothing was left in it."""
    if share <= 0:
        return found
    # The time that remains is shorter, and its errors in ns are no smaller.
    most = replace(log_ratio, value=log_ratio.value - math.log1p(-share), error=log_ratio.error / (1 - share))
    return WithKept(log_ratio=LogRatioBounds(least=log_ratio, most=most), rounds=found.rounds)
