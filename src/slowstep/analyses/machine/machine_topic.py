"""The topic `machine`: what the training gets of its machine, and who else uses that."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.machine.load import Load
from slowstep.analyses.machine.machine import Machine
from slowstep.analyses.machine.own_cost import OwnCost
from slowstep.analyses.steps.steps import Floats
from slowstep.faults import MayLack


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How evenly the machine worked between eighths of the window, by what the training's own work took."""

    spread: float  # standard deviation of a logarithm: two runs differ so, by the machine's pace or by chance
    beyond_chance: float  # the same without what steps differ by chance, neighbours alike or not; 0 where all may be that


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineTopic(MayLack):
    """Cores, disks, memory and devices over the window, and their other users. None is unknown."""

    resources: Machine
    load: Load
    cores: float | None  # that this training may use: affinity and quota, divided among the trainings that run at the same time
    delay_ns: Floats  # run-queue delay of the training thread per step
    pace: Pace
    stopped: tuple[int, float]  # how often the process was suspended since the first update, and for how many seconds
    own_cost: OwnCost | None  # of recording
