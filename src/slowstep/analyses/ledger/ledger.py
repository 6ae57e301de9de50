"""The ledger: every instant of the window belongs to one part of one stage. What it is; charging.py builds it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slowstep.analyses.steps.between_batches import BetweenBatches
from slowstep.analyses.steps.steps import Floats
from slowstep.parts import Part, PartKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Row meaning: one row per part; `ns` has a column per step of the window. All rows and columns sum to the steps' time exactly."""

    parts: tuple[Part, ...]
    ns: Floats
    gap_stacks: dict[Part, int]  # parts that stacks named, and by how many
    timed: dict[Part, int] = field(default_factory=dict)  # parts that timed calls named, and in how many gaps
    in_bodies_ns: Floats | None = None  # per step: named parts inside the steps' bodies, which are none of BODY; None: there are none
    between: BetweenBatches | None = None  # of steps of several batches
    _rows_ns: tuple[float, ...] = field(init=False, repr=False)  # per part: asked for hundreds of times, of up to millions of steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows_ns", tuple(self.ns.sum(axis=1).tolist()))

    def of(self, stage: str, *kinds: PartKind) -> Floats:
        """Time per step of a stage, of some kinds of its parts where given. Shape (steps,)."""
        return self._sum(self._rows(stage, kinds))

    def of_parts(self, *parts: Part) -> Floats:
        """Time per step of some parts together, those that are there. Shape (steps,)."""
        return self._sum(self._at(parts))

    def total(self, stage: str, *kinds: PartKind) -> float:
        """Time (ns) of all steps together of a stage, of some kinds of its parts where given."""
        return math.fsum(self._rows_ns[i] for i in self._rows(stage, kinds))

    def total_of(self, *parts: Part) -> float:
        """Time (ns) of all steps together of some parts."""
        return math.fsum(self._rows_ns[i] for i in self._at(parts))

    @property
    def whole(self) -> float:
        """Time (ns) of all steps together, of all parts: never less than a stage's."""
        return math.fsum(self._rows_ns)

    def share(self, stage: str, *kinds: PartKind) -> float:
        """Share of the window, 0 to 1."""
        return self.total(stage, *kinds) / self.whole

    def share_of(self, *parts: Part) -> float:
        """The same of some parts."""
        return self.total_of(*parts) / self.whole

    def parts_of(self, stage: str, *kinds: PartKind) -> tuple[Part, ...]:
        """The parts of a stage, of some kinds where given."""
        return tuple(self.parts[i] for i in self._rows(stage, kinds))

    def _sum(self, rows: list[int]) -> Floats:
        return np.asarray(self.ns[rows].sum(axis=0)) if rows else np.zeros(self.ns.shape[1])

    def _rows(self, stage: str, kinds: tuple[PartKind, ...]) -> list[int]:
        return [i for i, part in enumerate(self.parts) if part.stage == stage and (not kinds or part.kind in kinds)]

    def _at(self, parts: tuple[Part, ...]) -> list[int]:
        return [i for i, part in enumerate(self.parts) if part in parts]


def with_core_delay(ledger: Ledger, *parts: Part) -> Floats:
    """Time per step of some parts of one stage, with their share of what the stage waited for a core in that step."""
    stage = parts[0].stage
    own, delay = ledger.of_parts(*parts), ledger.of(stage, PartKind.CORE_WAIT)
    others = ledger.of(stage) - delay
    share = np.divide(own, others, out=np.zeros_like(own), where=others > 0)
    return np.asarray(own + delay * share)
