"""Forwards in loops without a loader: where each step's body begins, and which forwards belong to no body.

A forward with gradients is the training's. Without them it is a teacher's or a target network's, just before it; or a model is called again
and again, in a roll-out or a validation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.timeline.intervals import Ints

# One forward without gradients may be a teacher's. Two of one model in a row are the sign of a validation.
REPEATED = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Forwards:
    """`bodies_ns`: where steps' bodies may begin. `apart_start_ns`, `apart_end_ns`: stretches of repeated calls without gradients, and
    `apart_evaluating` whether all of a stretch were in evaluation mode (`model.eval()`), which is a validation's. `apart_plays`: those
    that are known to be roll-outs (roll_outs.py).
    """

    bodies_ns: Ints
    apart_start_ns: Ints
    apart_end_ns: Ints
    apart_evaluating: NDArray[np.bool_]
    apart_plays: NDArray[np.bool_]


def find_forwards(spans: pl.DataFrame, update_end_ns: Ints) -> Forwards:
    """Tell the forwards that begin a body from those that belong to no body. Where gradients are not recorded, all begin one."""
    rows = spans.filter(pl.col("kind") == "forward").sort("start_ns")
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    training: NDArray[np.bool_] = rows["gradients"].fill_null(True).to_numpy().astype(bool)
    nothing, never = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    if training.all() or not training.any():
        return Forwards(bodies_ns=start, apart_start_ns=nothing, apart_end_ns=nothing, apart_evaluating=never, apart_plays=never)
    module = rows["module"].fill_null(0).to_numpy()
    update = np.searchsorted(update_end_ns, start, side="right")
    bodies = start.copy()
    beside = training.copy()
    for i in np.flatnonzero(training & ~np.append(True, training[:-1])).tolist():
        first = _first_without_gradients(i, training, module, update)
        bodies[i] = start[first]
        beside[first:i] = True
    begun, ended = _repeated_outside_bodies(~beside, update)
    trains = np.flatnonzero(~beside & ~rows["evaluating"].fill_null(False).to_numpy().astype(np.bool_))
    return Forwards(
        bodies_ns=np.unique(bodies[training]),
        apart_start_ns=start[begun],
        apart_end_ns=end[ended],
        apart_evaluating=np.searchsorted(trains, begun) == np.searchsorted(trains, ended, side="right"),
        apart_plays=np.zeros(len(begun), np.bool_),
    )


def _first_without_gradients(i: int, training: NDArray[np.bool_], module: Ints, update: Ints) -> int:
    """The first of the forwards without gradients that lead up to forward i of the same step, each of another model."""
    seen, first = {int(module[i])}, i
    while first > 0 and not training[first - 1] and update[first - 1] == update[i] and int(module[first - 1]) not in seen:
        first -= 1
        seen.add(int(module[first]))
    return first


def _repeated_outside_bodies(alone: NDArray[np.bool_], update: Ints) -> tuple[Ints, Ints]:
    """First and last of the forwards of one stretch between two updates that belong to no body, where they are repeated."""
    rows = np.flatnonzero(alone)
    _, first, counts = np.unique(update[rows], return_index=True, return_counts=True)
    many = counts >= REPEATED
    return rows[first[many]], rows[(first + counts - 1)[many]]
