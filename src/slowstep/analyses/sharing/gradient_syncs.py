"""How many of a step's backward passes share their gradients with the other ranks, and what those before the last one wait for that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# The same share of backward passes that decides whether sharing is seen at all.
KNOWN_FROM = 0.95
# What a pass waits at least is the exchange itself: of many passes the tenth that waits least.
LEAST = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientSyncs:
    """Of the usual step: its backward passes whose gradients it updates by, and how many of them share gradients.

    `early_ns` is what the training thread was blocked in those that share and are not the last, per step; `exchange_ns` is at least the
    exchange in them, and `queued_ns` what they waited for a core besides, which the backend's threads use.
    """

    backwards: float
    synced: float
    early_ns: Floats
    exchange_ns: Floats
    queued_ns: Floats


def find_gradient_syncs(timeline: Timeline, trainer: Trainer, steps: Steps) -> GradientSyncs | None:
    """None where it is not known of nearly all passes, of several optimizers in turns, or where steps have no more forwards or batches than
    one: a second pass through the same graph shares nothing of its own.
    """
    rows = timeline.table("backward_cpu").filter(pl.col("process") == trainer.process, pl.col("thread") == trainer.thread).sort("start_ns")
    updates = timeline.table("updates").filter(pl.col("process") == trainer.process)
    # A backward within a backward, of checkpointing, is a part of the outer one.
    rows = rows.filter(rows["start_ns"] >= rows["end_ns"].cum_max().shift(1, fill_value=0))
    step = np.searchsorted(steps.edges_ns, rows["start_ns"].to_numpy(), side="right") - 1
    inside = (step >= 0) & (step < steps.stretches)
    rows, step = rows.filter(pl.Series(inside)), step[inside]
    kept = _accumulated(rows["is_anew"].to_numpy(), step)
    rows, step = rows.filter(pl.Series(kept)), step[kept]
    if rows.is_empty() or rows["synced"].is_not_null().mean() < KNOWN_FROM or updates["optimizer"].n_unique() > 1:  # type: ignore[operator]
        return None
    synced = rows["synced"].fill_null(False).to_numpy()
    usual = float(np.median(_per_step(step[synced], steps)))
    if usual > 1 and _forwards(trainer, steps) < usual:
        return None
    blocked = (rows["end_ns"] - rows["start_ns"] - rows["cpu_ns"] - rows["delay_ns"].fill_null(0)).to_numpy().astype(np.float64)
    blocked = np.maximum(blocked, 0.0)
    early = synced & np.append(step[1:] == step[:-1], False)
    least = np.minimum(blocked, float(np.percentile(blocked[synced], LEAST)) if synced.any() else 0.0)
    return GradientSyncs(
        backwards=float(np.median(_per_step(step, steps))),
        synced=usual,
        early_ns=_per_step(step[early], steps, blocked[early]),
        exchange_ns=_per_step(step[early], steps, least[early]),
        queued_ns=_per_step(step[early], steps, rows["delay_ns"].fill_null(0).to_numpy().astype(np.float64)[early]),
    )


def _accumulated(is_anew: NDArray[np.bool_], step: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which passes add to the gradients that the update takes: those before another one that begins anew were for something else, as to
    look for a worse place nearby.
    """
    at = np.arange(len(step))
    last = np.zeros(int(step.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, step[is_anew], at[is_anew])
    return np.asarray(at >= last[step])


def _per_step(step: NDArray[np.int64], steps: Steps, weights: Floats | None = None) -> Floats:
    summed = np.bincount(step, weights=weights, minlength=steps.stretches)
    return summed.astype(np.float64)[~steps.excluded]


def _forwards(trainer: Trainer, steps: Steps) -> float:
    """How often the usual step goes through the model: its forwards where they were recorded, else its batches."""
    start = trainer.training_forwards["start_ns"].to_numpy()
    stretch = np.searchsorted(steps.edges_ns, start, side="right") - 1
    inside = (stretch >= 0) & (stretch < steps.stretches)
    forwards = float(np.median(_per_step(stretch[inside], steps))) if inside.any() else 0.0
    return max(forwards, steps.batches_per_step or 0.0)
