"""What a verdict needs of measurements, whatever they were made of."""

from __future__ import annotations

from typing import Literal, Protocol

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.faults import Fault
from slowstep.parts import Part

# What was measured: a run as it was recorded, or a profiler's trace.
Kind = Literal["recording", "trace"]


class Accounted(Protocol):
    """A training whose time is accounted for: how its steps are divided among stages and parts, exactly."""

    @property
    def kind(self) -> Kind:
        """What it was measured from, which decides what may be doubted."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Errors of slowstep's own in its analyses."""

    @property
    def mean_step_ns(self) -> float:
        """Length of the mean step of the window."""

    @property
    def ledger(self) -> Ledger:
        """How the window is divided, with bounds where a part is known within them only."""

    def share(self, stage: str) -> float:
        """Share of the window, 0 to 1, of a stage."""

    def share_of(self, *parts: Part) -> float:
        """The same of some parts together."""
