"""What re-runs say: throughputs of whole short runs with a lever by those of runs as it is, a pair for each round. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from slowstep.prove.stats.design import FEWEST_PAIRS
from slowstep.prove.stats.intervals import LogRatio, student_pivots
from slowstep.prove.stats.throughput import Throughputs
from slowstep.prove.stats.verdicts import ArmState
from slowstep.reasons import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedRuns:
    """One lever: the ratio of each pair, how it went, and why not. `steps` were counted with the lever; `effect` and `facts` are its own.

    `throughputs` are means over the pairs. `per` is what throughput counts: "sample", or "step" where samples are not known. `seconds` is
    what all runs with it took.
    """

    state: ArmState
    reason: Reason | None = None
    ratios: tuple[float, ...] = ()
    per: Literal["sample", "step"] = "sample"
    steps: int = 0
    effect: int = 0
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    throughputs: Throughputs | None = None

    @property
    def rounds(self) -> int:
        """How many pairs there are."""
        return len(self.ratios)

    @property
    def log_ratio(self) -> LogRatio:
        """Of throughput with the lever by that as it is. Raises ValueError with fewer than two pairs."""
        return log_ratio_of_pairs(self.ratios)


@dataclass(frozen=True, kw_only=True, slots=True)
class AllRepeated:
    """Every lever that was to be repeated, by name; the pairs of runs that were both as it is (none where there was no time for them)."""

    levers: dict[str, RepeatedRuns] = field(default_factory=dict)
    control: tuple[float, ...] = ()
    interrupted: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether runs without any lever differed: the 99 % interval of their ratio does not hold 1."""
        if len(self.control) < FEWEST_PAIRS:
            return False
        interval = log_ratio_of_pairs(self.control).interval(0.99)
        return not interval.low <= 1.0 <= interval.high


def log_ratio_of_pairs(ratios: Sequence[float]) -> LogRatio:
    """The mean of the pairs' log ratios; how far off it may be is Student's distribution with one degree of freedom less than pairs.

    The pairs are runs of their own, so they are taken as independent, and their logarithms as normal. Raises ValueError for fewer than two.
    """
    if len(ratios) < 2:
        raise ValueError(f"{len(ratios)} pair of runs: an interval needs at least 2")
    logs = np.log(ratios)
    return LogRatio(value=float(logs.mean()), error=float(logs.std(ddof=1)) / math.sqrt(len(logs)), pivots=student_pivots(len(logs) - 1))
