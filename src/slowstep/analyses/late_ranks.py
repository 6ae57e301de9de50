"""The ranks of a job beside each other, by their traces: whose own work the others wait for in collectives, and for how long.

A step's own work is all but exposed collectives. Of several ranks the one whose own work takes longest in a step enters its collectives
last; what another has less of it, it waits there. No clock is needed for that, and no order of events between ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.ranks import SLOWER_FROM, WAITS_SHARE
from slowstep.analyses.sharing.sharing import STAGE
from slowstep.analyses.steps.steps import Floats

# As for a verdict: of two steps one confirms the other.
STEPS_AT_LEAST: Final = 2
# What steps are known by where the trace gives them no numbers of their own.
UNNUMBERED: Final = "inferred"
NO_STEPS: Final = "window"
Grid = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSteps:
    """One rank's steps: own work and exposed collectives, ns, shape (steps,); `numbers` is None where the trace does not number them."""

    numbers: tuple[int, ...] | None
    own_ns: Floats
    shared_ns: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One rank among the others, ns per step. `waits`: were the slowest rank as fast as this one, steps would gain a tenth or more."""

    own_ns: float
    shared_ns: float
    waited_ns: float  # in its collectives, for whoever was last in the same step
    waits: bool

    @property
    def step_ns(self) -> float:
        """Mean length of a step."""
        return self.own_ns + self.shared_ns


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """The ranks that could be held against each other, of a job of `size`.

    `gain_at_most` is what evening their work out would gain: divided evenly, or none longer than that of the median rank, whichever is
    more. `is_one` where the slowest rank's mean explains it; else another one is the last in each step.
    """

    standings: Mapping[int, Standing]
    size: int
    slowest: int
    fastest: int
    gain_at_most: float
    is_one: bool
    steps: int | None = None  # that were held against each other one by one; None where only their means were
    last_in: int | None = None  # of these, in how many the slowest rank was the last

    @property
    def is_uneven(self) -> bool:
        """Whether evening the ranks out could gain what the design calls a bottleneck."""
        return self.gain_at_most >= SLOWER_FROM

    @property
    def is_whole(self) -> bool:
        """Whether all ranks of the job are among them."""
        return not self.missing

    @property
    def missing(self) -> int:
        """How many ranks of the job are not among them."""
        return max(self.size - len(self.standings), 0)


def pace_of(m: Measurements) -> RankSteps | None:
    """A rank's steps; None where its trace shows no steps of a training."""
    steps = m.marks.table
    if not m.training.is_training or steps.is_empty() or steps["mark"][0] == NO_STEPS:
        return None
    shared_ns = m.ledger.of(STAGE)
    numbers = None if steps["mark"][0] == UNNUMBERED else tuple(steps["number"].to_list())
    return RankSteps(numbers=numbers, own_ns=np.asarray(m.step_ns, dtype=np.float64) - shared_ns, shared_ns=shared_ns)


def compare(paces: Mapping[int, RankSteps], size: int) -> Compared | None:
    """Hold ranks against each other, step by step where all number them; None for a lone one, or where they have no steps in common."""
    grids = _aligned(paces) if len(paces) > 1 else None
    if grids is None:
        return None
    own, shared, steps = grids
    ranks = tuple(paces)
    means, last = own.mean(axis=1), own.max(axis=0)
    slowest = int(np.argmax(means))
    waited = np.clip(last - own, 0.0, shared).mean(axis=1)
    evened = np.minimum(last - _evened(own), shared.max(axis=0)).mean()
    step_ns = float((own + shared).mean(axis=1)[slowest])
    return Compared(
        standings={
            rank: Standing(
                own_ns=float(means[at]),
                shared_ns=float(shared[at].mean()),
                waited_ns=float(waited[at]),
                waits=_waits(means[at], float(shared[at].mean()), means[slowest]),
            )
            for at, rank in enumerate(ranks)
        },
        size=max(size, len(ranks)),
        slowest=ranks[slowest],
        fastest=ranks[int(np.argmin(means))],
        gain_at_most=step_ns / max(step_ns - float(evened), 1.0),
        is_one=float(means[slowest] - _evened(means[:, None])[0]) >= _needed(step_ns),
        steps=steps,
        last_in=None if steps is None else int((np.argmax(own, axis=0) == slowest).sum()),
    )


def _aligned(paces: Mapping[int, RankSteps]) -> tuple[Grid, Grid, int | None] | None:
    """Own work and exposed collectives, shape (ranks, steps), and the number of steps; means in one column where steps have no numbers."""
    every = list(paces.values())
    if min(len(pace.own_ns) for pace in every) < STEPS_AT_LEAST:
        return None
    numbers = [pace.numbers for pace in every if pace.numbers is not None]
    if len(numbers) < len(every):
        return np.array([[p.own_ns.mean()] for p in every]), np.array([[p.shared_ns.mean()] for p in every]), None
    common = sorted(set(numbers[0]).intersection(*numbers[1:]))
    if len(common) < STEPS_AT_LEAST:
        return None
    places = [[each.index(number) for number in common] for each in numbers]
    own = np.array([pace.own_ns[at] for pace, at in zip(every, places, strict=True)])
    shared = np.array([pace.shared_ns[at] for pace, at in zip(every, places, strict=True)])
    return own, shared, len(common)


def _evened(own: Grid) -> Floats:
    """How long the last rank's own work could be after evening out, per step: as the mean, or as that of the (lower) median rank."""
    return np.asarray(np.minimum(own.mean(axis=0), np.sort(own, axis=0)[(len(own) - 1) // 2]))


def _waits(own_ns: float, shared_ns: float, slowest_ns: float) -> bool:
    """Whether a rank clearly waits for the slowest one, by the same marks as of recorded ranks (`slowstep.analyses.ranks`)."""
    longer = slowest_ns - own_ns
    return longer >= _needed(own_ns + shared_ns) and shared_ns >= WAITS_SHARE * longer


def _needed(step_ns: float) -> float:
    return step_ns - step_ns / SLOWER_FROM
