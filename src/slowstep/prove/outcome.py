"""How an experiment stands, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slowstep.prove.ended_by import EndedBy
from slowstep.prove.executor import Ending
from slowstep.prove.stats.design import CONTROL
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.readings import ExperimentSteps


@dataclass(frozen=True, kw_only=True, slots=True)
class Interim:
    """How it stands: seconds since the plan was taken up, rounds of which something was measured, estimates so far."""

    seconds: float
    rounds: int
    estimates: Mapping[int, Estimate]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentOutcome:
    """What was found. Arms that failed, were not applicable, or have too few rounds have no estimate: `notes` say why."""

    estimates: Mapping[int, Estimate]
    notes: tuple[dict[str, Any], ...]
    ended_by: EndedBy
    ending: Ending
    steps: ExperimentSteps
    seconds: float

    @property
    def precision(self) -> float | None:
        """The precision that was reached: that of a lever's widest interval. None where no lever was measured."""
        return max((e.gain.precision for arm, e in self.estimates.items() if arm != CONTROL), default=None)
