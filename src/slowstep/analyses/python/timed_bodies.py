"""How much longer bodies took whose calls were timed: what timing costs this training's own Python code, and no other's.

Timing looks at every instruction of Python, so it costs one loop twice its time and another one four times. Backward is not slowed, and
tells how fast the machine was in the very same body.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.chance import NORMAL_95
from slowstep.analyses.steps.forwards import find_forwards
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

FEWEST_TIMED = 2
FEWEST_OTHERS = 20
# Half of a 90 % interval, for a median of values that are spread like a normal distribution.
DEVIATIONS = NORMAL_95 * 1.2533
# A median absolute deviation is so much of a standard deviation.
MEDIAN_DEVIATION = 0.6745


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengthened:
    """How many times as long a body without backward and optimizer took while its calls were timed, and its 90 % interval."""

    value: float
    low: float
    high: float


def find_lengthened(timeline: Timeline, trainer: Trainer) -> Lengthened | None:
    """Hold the timed bodies against all others. None where too few bodies are known, or they have no backward to tell the pace by."""
    bodies = _bodies(trainer)
    stretches = timeline.table("timed_stretches").filter(pl.col("process") == trainer.process, pl.col("kind") == "body")
    known = (bodies.backward_ns > 0) & (bodies.rest_ns > 0)
    ratio = np.log(bodies.rest_ns[known] / bodies.backward_ns[known])
    timed = bodies.holding(stretches["start_ns"].to_numpy())[known]
    if timed.sum() < FEWEST_TIMED or (~timed).sum() < FEWEST_OTHERS:
        return None
    usual = float(np.median(ratio[~timed]))
    spread = float(np.median(np.abs(ratio[~timed] - usual))) / MEDIAN_DEVIATION
    half, value = DEVIATIONS * spread / math.sqrt(timed.sum()), float(np.median(ratio[timed])) - usual
    low, middle, high = (max(math.exp(value + sign * half), 1.0) for sign in (-1, 0, 1))
    return Lengthened(value=middle, low=low, high=high)


@dataclass(frozen=True, slots=True)
class _Bodies:
    """From the receipt of a batch, or its first forward, to its update: when each began and its update did, and its backward (ns)."""

    begin_ns: Ints
    update_ns: Ints
    backward_ns: Floats

    @property
    def rest_ns(self) -> Floats:
        return self.update_ns - self.begin_ns - self.backward_ns

    def holding(self, time_ns: Ints) -> NDArray[np.bool_]:
        """In which of them some of the instants lie."""
        at = np.searchsorted(self.begin_ns, time_ns, side="right") - 1
        at = at[(at >= 0) & (time_ns < np.append(self.update_ns, 0)[at])]
        return np.asarray(np.bincount(at, minlength=len(self.begin_ns)) > 0)


def _bodies(trainer: Trainer) -> _Bodies:
    received, start, end = _receipts(trainer), trainer.update_start_ns, trainer.update_end_ns
    if not len(received):
        return _Bodies(received, received, np.zeros(0))
    at = np.searchsorted(received, start, side="right") - 1
    begin = received[np.maximum(at, 0)]
    # Several updates for one batch are no body each.
    own = (at >= 0) & (begin > np.append(-1, end[:-1]))
    begin, start = begin[own], start[own]
    spans = trainer.backwards
    length = np.append(0.0, np.cumsum((spans["end_ns"] - spans["start_ns"]).to_numpy().astype(np.float64)))
    first, last = (np.searchsorted(spans["start_ns"].to_numpy(), edge) for edge in (begin, start))
    return _Bodies(begin, start, length[last] - length[first])


def _receipts(trainer: Trainer) -> Ints:
    """When batches were received; in a loop that is not fed when each step's first forward began."""
    if trainer.is_fed:
        return np.asarray(np.sort(trainer.waits["end_ns"].to_numpy()))
    forwards = np.sort(find_forwards(trainer.spans, trainer.update_end_ns).bodies_ns)
    first = np.searchsorted(forwards, np.append(-1, trainer.update_end_ns[:-1]))
    return np.asarray(np.unique(forwards[first[first < len(forwards)]]))
