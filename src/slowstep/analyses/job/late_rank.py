"""The ranks of a job beside each other: whose own work the others wait for in collectives, how long, and whether that is sure.

A step's own work is all but exposed collectives. Of several ranks the one whose own work takes longest in a step enters its collectives
last; what another has less of it, it waits there. No clock is needed for that, and no order of events between ranks.

Traces number their steps, so that ranks are compared step by step. Recordings are of many more steps, on machines that others use, too:
there means of blocks of neighbouring steps are compared, and who only got fewer cores is not slow itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.job.rank_steps import BLOCK_STEPS, RankSteps
from slowstep.analyses.steps.steps import Floats

# A rank is called slower than another when being as fast would gain the job what makes a bottleneck (predicted >= 1.10): all
# wait for the slowest.
SLOWER_FROM: Final = 1.10
# Of the difference, what the faster rank must be seen to wait: half leaves room for the estimate, and excludes ranks that share nothing.
WAITS_SHARE: Final = 0.5
CERTAIN: Final = 2.0  # standard errors
# As for a verdict: of two steps one confirms the other.
STEPS_AT_LEAST: Final = 2
Grid = NDArray[np.float64]


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
class RankComparison:
    """The ranks that could be held against each other, of a job of `size`.

    `gain_at_most` is what evening their work out would gain: divided evenly, or none longer than that of the median rank, whichever is
    more; None where waiting for cores may be what makes them uneven. `is_one` where the slowest rank's mean explains it; else another
    one is the last in each step.
    """

    standings: Mapping[int, Standing]
    size: int
    slowest: int
    fastest: int
    gain_at_most: float | None
    is_one: bool
    steps: int | None = None  # that were held against each other one by one; None where only their means were
    last_in: int | None = None  # of these, in how many the slowest rank was the last

    @property
    def is_uneven(self) -> bool:
        """Whether evening the ranks out could gain what makes a bottleneck."""
        return self.gain_at_most is not None and self.gain_at_most >= SLOWER_FROM

    @property
    def somebody_waits(self) -> bool:
        """Whether a rank clearly waits for the slowest one."""
        return any(standing.waits for standing in self.standings.values())

    @property
    def is_whole(self) -> bool:
        """Whether all ranks of the job are among them."""
        return not self.not_compared

    @property
    def not_compared(self) -> int:
        """How many ranks of the job are not among them: they are missing, or have no steps that can be held against those of others."""
        return max(self.size - len(self.standings), 0)


def compare_ranks(ranks: Mapping[int, RankSteps], size: int) -> RankComparison | None:
    """Hold the ranks of a job of `size` against each other; None for a lone one, or where they have no steps in common."""
    every = list(ranks.values())
    grids = _aligned(every) if len(every) > 1 else None
    if grids is None:
        return None
    own, shared, steps = grids
    numbers, means = tuple(ranks), own.mean(axis=1)
    slowest, last = int(np.argmax(means)), own.max(axis=0)
    step_ns = float((own + shared).mean(axis=1)[slowest])
    needed_ns = step_ns - step_ns / SLOWER_FROM
    waited = np.clip(last - own, 0.0, shared).mean(axis=1)

    def standing(at: int) -> Standing:
        own_ns, shared_ns = float(means[at]), float(shared[at].mean())
        longer_ns = float(means[slowest]) - own_ns
        waits = longer_ns >= needed_ns and shared_ns >= WAITS_SHARE * longer_ns and _surely_longer(every[slowest], every[at]) >= needed_ns
        return Standing(own_ns=own_ns, shared_ns=shared_ns, waited_ns=float(waited[at]), waits=waits)

    has_delays = all(each.delay_ns is not None for each in every)
    return RankComparison(
        standings={number: standing(at) for at, number in enumerate(numbers)},
        size=max(size, len(numbers)),
        slowest=numbers[slowest],
        fastest=numbers[int(np.argmin(means))],
        gain_at_most=None if has_delays else _gain_of_evening_out(own, shared, step_ns),
        is_one=has_delays or float(means[slowest] - _evened(means[:, None])[0]) >= needed_ns,
        steps=steps,
        last_in=None if steps is None else int((np.argmax(own, axis=0) == slowest).sum()),
    )


def _aligned(ranks: Sequence[RankSteps]) -> tuple[Grid, Grid, int | None] | None:
    """Own work and exposed collectives, shape (ranks, steps), and the number of steps; means in one column where steps have no numbers."""
    if min(len(rank.own_ns) for rank in ranks) < STEPS_AT_LEAST:
        return None
    numbers = [rank.numbers for rank in ranks if rank.numbers is not None]
    if len(numbers) < len(ranks):
        return np.array([[rank.own_ns.mean()] for rank in ranks]), np.array([[rank.shared_ns.mean()] for rank in ranks]), None
    common = sorted(set(numbers[0]).intersection(*numbers[1:]))
    if len(common) < STEPS_AT_LEAST:
        return None
    # Of a number that comes twice the first place counts.
    at = [dict(zip(reversed(each), range(len(each) - 1, -1, -1), strict=True)) for each in numbers]
    places = [[each[number] for number in common] for each in at]
    own = np.array([rank.own_ns[at] for rank, at in zip(ranks, places, strict=True)])
    shared = np.array([rank.shared_ns[at] for rank, at in zip(ranks, places, strict=True)])
    return own, shared, len(common)


def _gain_of_evening_out(own: Grid, shared: Grid, step_ns: float) -> float:
    evened_ns = float(np.minimum(own.max(axis=0) - _evened(own), shared.max(axis=0)).mean())
    return step_ns / max(step_ns - evened_ns, 1.0)


def _evened(own: Grid) -> Floats:
    """How long the last rank's own work could be after evening out, per step: as the mean, or as that of the (lower) median rank."""
    return np.asarray(np.minimum(own.mean(axis=0), np.sort(own, axis=0)[(len(own) - 1) // 2]))


def _surely_longer(slow: RankSteps, other: RankSteps) -> float:
    """How much longer a rank's own work takes without what it waits for a core, less the uncertainty of that (two standard errors of the
    means of blocks). No limit where the waiting for cores is not known: then steps are as long as they are.
    """
    if slow.delay_ns is None or other.delay_ns is None:
        return math.inf
    ns, other_ns = slow.own_ns - slow.delay_ns, other.own_ns - other.delay_ns
    spread = sum(float(means.var(ddof=1)) / len(means) if len(means) > 1 else math.inf for means in map(_block_means, (ns, other_ns)))
    return float(ns.mean() - other_ns.mean()) - CERTAIN * math.sqrt(spread)


def _block_means(ns: Floats) -> Floats:
    blocks = len(ns) // BLOCK_STEPS
    return np.asarray(ns[: blocks * BLOCK_STEPS].reshape(blocks, BLOCK_STEPS).mean(axis=1)) if blocks else ns[:0]
