"""The plan of an experiment, as the training's process reads it: arms, and the order of their blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from slowstep.record.experiment.lever import LeverSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One state of the training: as it is (no levers), or with levers on."""

    name: str
    levers: tuple[LeverSpec, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Arms, the first of which is `as-is`; `blocks` are indices of arms in the order of their blocks, each of `steps` counted steps.

    `longest_step_s` is the longest step with which an arm alone could be judged within the budget, `ready_s` for how long levers may take
    to be made ready; None where there is no budget. Of each block so many steps come before those that count (`settling`), and more where
    its arm takes longer to settle; so many follow at most (`going_on`) while a device makes the last of those that count. `process` is the
    one whose steps are compared; None: whichever takes it up. The other ranks of its job walk the plan in step with it.

    `begins` are the rounds in which later starts of the script begin: those of all its starts are one plan afterwards (`starts.py`).
    `given_up` are arms whose levers refused or failed in a start before: they are not made ready, and their blocks are left out.

    A plan with a `task`, as a framework has it in its `inside/tasks`, has neither: the task is run with its `arguments`, and the training
    is held.
    """

    seed: int
    steps: int
    arms: tuple[Arm, ...]
    blocks: tuple[int, ...]
    longest_step_s: float | None = None
    ready_s: float | None = None
    task: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    process: int | None = None
    settling: int = 0
    going_on: int = 0
    begins: tuple[int, ...] = ()
    given_up: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for blocks of no arm, or without steps: of a file that is read, by whoever decodes it."""
        if not all(0 <= arm < len(self.arms) for arm in self.blocks):
            raise ValueError(f"a block of the plan is of none of its {len(self.arms)} arms")
        if self.blocks and self.steps < 1:
            raise ValueError(f"the plan's blocks have {self.steps} steps")

    @property
    def uncounted(self) -> int:
        """Steps of a block that are not counted, where its arm settles as soon as it may."""
        return self.settling + self.going_on

    def dumps(self) -> str:
        """The plan as JSON, the file `plan.json` of a recording."""
        return json.dumps(asdict(self))
