"""Each call waits until its updates are made.

What it changes:
    `pretend.is_asynchronous` is False while it is on.
What it answers:
    What the training gains from what is done while it computes.
When it has no meaning:
    Where each call waits anyway.
How it is undone:
    It is True again.
"""

from __future__ import annotations

import sys
from typing import Any

from slowstep.record.experiment.lever import Change, Implementation, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training


class InTurn(Change):
    """Waits for each call; `effect` counts the steps that did."""

    def __init__(self, pretend: Any) -> None:
        self._pretend = pretend

    def on(self) -> None:
        """Wait."""
        self._pretend.is_asynchronous = False

    def off(self) -> None:
        """Go on while it works."""
        self._pretend.is_asynchronous = True

    def each_step(self) -> None:
        """It has waited."""
        self.effect += 1


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where each call waits anyway."""
    pretend: Any = sys.modules["pretend"]
    if not pretend.is_asynchronous:
        raise NotApplicable("each call waits anyway")
    return InTurn(pretend)


IMPLEMENTATION = Implementation(lever=Lever(name="in-turn"), prepare=prepare)
