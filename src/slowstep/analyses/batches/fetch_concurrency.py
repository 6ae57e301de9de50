"""Fetch concurrency: by how much longer the making of a batch is blocked the more others are made.

What they wait for has one limit for all of them (a line, a server, a disk), and each gets the less the more there are; or each waits by
itself (a limit of each connection, latency, a sleep), as long as alone. Which of both it is shows only where the number that are made at
once changes: at the ends of epochs, or while workers have nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.chance import SEED
from slowstep.calibration import loading

# Beside so many fewer others than usual, at most 3/4 of them all, a batch tells something when it is seen at least this often (as of
# smaller batches in fixed_cost.py).
FEWER_SHARE = 0.75
FEWEST = 5
# Of the making of a batch, so much must be blocked: what is computed at once is held up by cores.
BLOCKED_SHARE = 0.5
# Of longer recordings so many of each kind, spread over all of it.
MOST = 1_000
RESAMPLES = 500
# Halfway between one limit for all (1) and one for each (0).
SHARED_FROM = loading.SHARED_LIMIT.value

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchConcurrency:
    """`slows`: a batch that is made beside n others takes (n + 1)^slows as long as alone. 1: they share one limit; 0: each is by itself.

    `low` and `high` are its 90 % interval.
    """

    slows: float
    low: float
    high: float

    @property
    def share_a_limit(self) -> bool | None:
        """Whether all wait for one limit; False where each has its own, None where that is not sure."""
        return None if self.low <= SHARED_FROM <= self.high else self.low > SHARED_FROM


def find_fetch_concurrency(fetches: pl.DataFrame) -> FetchConcurrency | None:
    """From all fetches of the workers that feed the training; None where the number made at once hardly ever changes, or it is unknown."""
    rows = fetches.sort("start_ns").with_columns(
        first=pl.int_range(pl.len()).over("process") == 0,
        wall_ns=pl.col("end_ns") - pl.col("start_ns"),
        computed_ns=pl.sum_horizontal(pl.col("cpu_ns", "delay_ns", "other_cpu_ns").fill_null(0)),
    )
    rows = rows.with_columns(
        pl.Series("at_once", _at_once(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())),
        blocked_ns=pl.col("wall_ns") - pl.col("computed_ns"),
    )
    # A worker's first batch takes longer for other reasons: it imports, connects, opens.
    usable = ~pl.col("first") & ~pl.col("profiled") & (pl.col("samples") > 0) & (pl.col("wall_ns") > 0)
    told = rows.filter(usable & (pl.col("blocked_ns") >= BLOCKED_SHARE * pl.col("wall_ns")))
    if told.is_empty():
        return None
    at_once = told["at_once"].to_numpy()
    is_fewer = at_once <= FEWER_SHARE * float(np.median(at_once))
    if is_fewer.sum() < FEWEST:
        return None
    kept = np.concatenate([_evenly(np.flatnonzero(is_fewer)), _evenly(np.flatnonzero(~is_fewer))])
    number = np.log(at_once[kept])
    takes = np.log((told["blocked_ns"] / told["samples"]).to_numpy()[kept])
    draws = np.random.default_rng(SEED).integers(0, len(kept), (RESAMPLES, len(kept)))
    low, high = np.percentile([_slope(number[draw], takes[draw]) for draw in draws], [5, 95])
    return FetchConcurrency(slows=_slope(number, takes), low=float(low), high=float(high))


def _evenly(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return rows if len(rows) <= MOST else rows[np.linspace(0, len(rows) - 1, MOST).astype(np.intp)]


def _at_once(start: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
    """How many fetches were open beside each, itself counted: the harmonic mean over its time, by which a limit is shared."""
    times = np.unique(np.concatenate([start, end]))
    open_then = np.searchsorted(np.sort(start), times, side="right") - np.searchsorted(np.sort(end), times, side="right")
    shares = np.append(0.0, np.cumsum(np.diff(times) / np.maximum(open_then[:-1], 1)))
    own = shares[np.searchsorted(times, end)] - shares[np.searchsorted(times, start)]
    return np.asarray((end - start) / np.maximum(own, 1.0))


def _slope(x: Floats, y: Floats) -> float:
    apart = x - x.mean()
    return float((apart * (y - y.mean())).sum() / max(float((apart**2).sum()), 1e-12))
