"""How an experiment stands, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from slowstep.prove.executor import Ending
from slowstep.prove.stats.design import CONTROL
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.readings import ExperimentSteps

EndedBy = Literal[
    "precision",
    "budget",
    "plan done",
    "script ended",
    "interrupted",
    "never trained",
    "not taken up",
    "stood still",
    "cut short",
    "no lever left",
    "loss not finite",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interim:
    """How it stands: seconds since the plan was taken up, rounds of which something was measured, estimates so far."""

    seconds: float
    rounds: int
    estimates: Mapping[int, Estimate]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentOutcome:
    """What was found. Arms that failed, were not applicable, or have too few rounds have no estimate: `notes` say why.

    `ended_by` is "not taken up" where the script did train, but came to no boundary after the plan was posted, "stood still" where it
    stopped making steps, "cut short" where the executor had to end it (`ending.problem` says why), "no lever left" where every arm with
    levers failed or was not applicable, and "loss not finite" where the training did not come back from what one did to its loss.
    """

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
