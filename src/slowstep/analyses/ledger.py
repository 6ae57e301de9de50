"""The ledger: every instant of the window belongs to one part of one stage. What it is; charging.py builds it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slowstep.analyses.between_batches import BetweenBatches
from slowstep.analyses.steps import Floats

CORE = "waiting for a core"
FORWARD = "forward and the rest"
BACKWARD = "backward"
SHUTDOWN = "loader shut-down"
COLLECTING = "garbage collection"
# Of bodies: blocked, while other Python threads of the process compute.
HELD_UP = "held up beside other Python threads"
SMALL = "callbacks of less than 0.2 % each"
Part = tuple[str, str]  # stage, part
MODELS: tuple[Part, ...] = (("compute", FORWARD), ("compute", BACKWARD))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Row meaning: one row per part; `ns` has a column per step of the window. All rows and columns sum to the steps' time exactly."""

    parts: tuple[Part, ...]
    ns: Floats
    gap_stacks: dict[Part, int]  # parts that stacks named, and by how many
    timed: dict[Part, int] = field(default_factory=dict)  # parts that timed calls named, and in how many gaps
    in_bodies_ns: Floats | None = None  # per step: named parts inside the steps' bodies, which are none of FORWARD; None: there are none
    between: BetweenBatches | None = None  # of steps of several batches
    _rows_ns: tuple[float, ...] = field(init=False, repr=False)  # per part: asked for hundreds of times, of up to millions of steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows_ns", tuple(self.ns.sum(axis=1).tolist()))

    def of(self, stage: str, *names: str) -> Floats:
        """Time per step of a stage, of some of its parts where named. Shape (steps,)."""
        rows = self._rows(stage, names)
        return np.asarray(self.ns[rows].sum(axis=0)) if rows else np.zeros(self.ns.shape[1])

    def total(self, stage: str, *names: str) -> float:
        """Time (ns) of all steps together of a stage, of some of its parts where named."""
        return math.fsum(self._rows_ns[i] for i in self._rows(stage, names))

    @property
    def whole(self) -> float:
        """Time (ns) of all steps together, of all parts: never less than a stage's."""
        return math.fsum(self._rows_ns)

    def share(self, stage: str, *names: str) -> float:
        """Share of the window, 0 to 1."""
        return self.total(stage, *names) / self.whole

    def _rows(self, stage: str, names: tuple[str, ...]) -> list[int]:
        return [i for i, (s, name) in enumerate(self.parts) if s == stage and (not names or name in names)]


def with_core_delay(ledger: Ledger, stage: str, *names: str) -> Floats:
    """Time per step of some parts of a stage, with their share of what the stage waited for a core in that step."""
    own, delay = ledger.of(stage, *names), ledger.of(stage, CORE)
    others = ledger.of(stage) - delay
    share = np.divide(own, others, out=np.zeros_like(own), where=others > 0)
    return np.asarray(own + delay * share)
