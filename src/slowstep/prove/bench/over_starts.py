"""A speed with the interval of what other starts of the same script make, out of what one start was measured to make. Pure.

An interval from one process knows that process only. Where memory lies, which kernels a library picks and what pace a shared machine has
just then differ from start to start, and no block of steps shows it. Two commands that each start the script once could so give intervals
that exclude each other, though both measured the same thing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from slowstep.calibration.between_runs import BETWEEN_STARTS
from slowstep.prove.bench.loader_speed import Point
from slowstep.prove.stats.figures import Figure

_SEED: Final = 20261127


def over_starts(figure: Figure, *, waiting: float = 1.0, of_next: bool = False) -> Figure:
    """The same value, with the spread between starts in its interval: that of the mean over starts or, `of_next`, of any one to come.

    `waiting`: how many times as fast it would be if it had not waited for cores that other processes used. The interval then reaches from
    the speed on the machine as busy as it was to that on a quiet one: which of them another start meets, nobody knows.
    """
    draw = np.random.default_rng(_SEED)
    count = len(figure.draws)
    # Where the pace moved more within this start than it does between starts of a quiet machine, others meet other moments of it.
    spread = max(BETWEEN_STARTS.value, figure.pace)
    # The next start is off as far as the one that was measured was.
    start = np.exp(draw.normal(0.0, spread * (math.sqrt(2.0) if of_next else 1.0), count))
    return Figure(value=figure.value, draws=figure.draws * start * max(waiting, 1.0) ** draw.integers(0, 2, count))


def point_over_starts(point: Point, waiting: float = 1.0, *, of_next: bool = False) -> Point:
    """The same of the speeds of a loader."""
    samples, batches, size = (
        None if rate is None else over_starts(rate, waiting=waiting, of_next=of_next)
        for rate in (point.samples_per_s, point.batches_per_s, point.bytes_per_s)
    )
    return replace(point, samples_per_s=samples, batches_per_s=batches, bytes_per_s=size)
