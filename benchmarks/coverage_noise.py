"""Step times of trainings that do not exist: noise as it was seen on shared machines, for many trainings at once.

Seen on a real trace (torch on two shared cores, median 22 ms): coefficient of variation 0.38 of wall time and 0.16 without the run-queue
delay, lag-1 autocorrelation 0.78 and 0.50.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Of the logarithm of a step's time: standard deviation, lag-1 correlation, slow drift; and of single steps that stall.

    `stall` is how many times a usual step a stalled one is longer, at the least: a Pareto tail of index 1.5, which has no variance.
    """

    spread: float
    alike: float
    drift: float = 0.0
    stalls: float = 0.0
    stall: float = 3.0
    # A process beside the training for so many steps, once in each training, that makes them so many times as long.
    burst_steps: int = 0
    burst: float = 2.5


NOISES = {
    "quiet": Noise(spread=0.05, alike=0.3, drift=0.02),
    "without delay": Noise(spread=0.15, alike=0.5, drift=0.05),
    "shared": Noise(spread=0.33, alike=0.78, drift=0.15),
    "shared, with stalls": Noise(spread=0.30, alike=0.78, drift=0.15, stalls=0.01),
    "quiet, with stalls": Noise(spread=0.05, alike=0.3, drift=0.02, stalls=0.02),
    "without delay, 2 s of another process": Noise(spread=0.15, alike=0.5, drift=0.05, burst_steps=100),
    "shared, 2 s of another process": Noise(spread=0.33, alike=0.78, drift=0.15, burst_steps=100),
}


def step_times(noise: Noise, rng: np.random.Generator, trainings: int, steps: int) -> Floats:
    """Shape (trainings, steps); a usual step takes 1."""
    log = _resembling(rng, noise.alike, trainings, steps) * noise.spread
    if noise.drift:
        log += _resembling(rng, 0.998, trainings, steps) * noise.drift
    times = np.exp(log)
    if noise.stalls:
        times += (rng.random(times.shape) < noise.stalls) * noise.stall * (1 + rng.pareto(1.5, times.shape))
    if noise.burst_steps:
        began = rng.integers(0, max(steps - noise.burst_steps, 1), size=(trainings, 1))
        at = np.arange(steps)
        times *= np.where((at >= began) & (at < began + noise.burst_steps), noise.burst, 1.0)
    return times


def _resembling(rng: np.random.Generator, alike: float, trainings: int, steps: int) -> Floats:
    """Normal, of variance one, each like the one before: an autoregression of first order."""
    values = np.empty((steps, trainings))
    values[0] = rng.standard_normal(trainings)
    fresh = np.sqrt(1 - alike**2)
    for i in range(1, steps):
        values[i] = alike * values[i - 1] + fresh * rng.standard_normal(trainings)
    return np.ascontiguousarray(values.T)
