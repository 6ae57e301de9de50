"""What slowstep's own cost is made of."""

from __future__ import annotations

from enum import StrEnum


class CostPart(StrEnum):
    """A part of what slowstep costs a training, as report.json names it."""

    HOOKS = "hooks"
    STACKS = "stacks"
    MONITORS = "monitors"
    PROFILER = "profiler"  # that of --capture: somebody has asked for it, and it is no cost of recording
