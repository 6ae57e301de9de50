"""What is kept of a rank's measurements to hold it against the others, so that the rest can be let go of before the next is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slowstep.analyses.events.tables import INFERRED
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.sharing import STAGE
from slowstep.analyses.steps.steps import Floats

# Neighbouring steps resemble each other (lag-1 autocorrelation 0.5 to 0.8, measured): so means of blocks are compared, as long as the
# stretches by which the warm-up ends (docs/definitions.md).
BLOCK_STEPS: Final = 10
# Of a recorded rank with fewer steps nothing is certain, and it must not stand for the slowest.
RECORDED_AT_LEAST: Final = 2 * BLOCK_STEPS


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSteps:
    """One rank's steps: own work, and what is shared with the others (exposed collectives, waiting in them), ns, shape (steps,).

    `numbers` is None where the steps of ranks cannot be held against each other one by one. `delay_ns` is what of the own work was
    waited for a core, None where that is not known.
    """

    own_ns: Floats
    shared_ns: Floats
    numbers: tuple[int, ...] | None = None
    delay_ns: Floats | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankPace:
    """How fast a rank is: what its row in the table of ranks tells, and by what it is held against the others."""

    steps: RankSteps | None  # None where they cannot be held against other ranks'
    total_steps: int
    step_ms: float | None  # mean length of a step
    own_ms: float | None  # a step without what is shared with other ranks; None where that was not seen


def recorded_steps(m: Measurements) -> RankSteps | None:
    """A recorded rank's steps; None of a training of its own, where waiting for others was not seen, and of too few steps."""
    if m.sharing.ranks == 1 or not m.sharing.seen or m.steps.count < RECORDED_AT_LEAST:
        return None
    own = m.sharing.own_ns
    return RankSteps(own_ns=own, shared_ns=np.asarray(m.step_ns - own), delay_ns=m.machine.delay_ns)


def traced_steps(m: Measurements) -> RankSteps | None:
    """A traced rank's steps; None where its trace shows no steps of a training."""
    steps = m.marks.table
    if not m.training.is_training or steps.is_empty() or m.marks.is_window:
        return None
    shared_ns = m.ledger.of(STAGE)
    numbers = None if steps["mark"][0] == INFERRED else tuple(steps["number"].to_list())
    return RankSteps(numbers=numbers, own_ns=np.asarray(m.step_ns - shared_ns), shared_ns=shared_ns)


def own_work_ms(m: Measurements) -> float | None:
    """A recorded step without what is shared with other ranks, on average; None where that was not seen."""
    return float(m.sharing.own_ns.mean()) / 1e6 if m.sharing.seen or m.sharing.ranks == 1 else None
