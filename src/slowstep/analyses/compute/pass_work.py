"""What of backward passes grows with the samples at most, by what their operations compute; the rest is there for any batch size.

Nothing is known where a graph holds an operation whose work no shape tells, where Python runs inside of a pass (hooks, a forward that is
computed again) or it is not known that none does, where other ranks are waited for, where a graph is larger than those of which it was
noted what they compute, or where a loop over the samples may have made it: that of a larger batch has more operations then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.compute.work import Work
from slowstep.analyses.steps.trainer import Trainer
from slowstep.calibration import computing
from slowstep.timeline.timeline import Timeline

COSTS = (computing.BACKWARD_ELEMENT, computing.BACKWARD_DEAR, computing.BACKWARD_SCATTERED, computing.BACKWARD_PRODUCT)
# A graph that has so much more of something is another one. What a pass takes grows with the square of a length at most, and of no model by
# more than 0.6 of what is told at most (`BACKWARD_ELEMENT`): of graphs that have less more than this, that is the most as well.
A_LITTLE = 1.1
USUAL_NS, MOST_NS = tuple(cost.value for cost in COSTS), tuple(cost.bounds[1] for cost in COSTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassWork:
    """Of the passes that were looked at; `usual_ns` and `most_ns` are what one takes for what grows with its samples."""

    usual_ns: float
    most_ns: float
    whole: int
    parts: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, int], ...]

    def may_loop_over(self, samples: int) -> bool:
        """Whether the operations may be so many because a loop goes over so many samples, or over some of them at a time."""
        # Of one sample nothing tells a loop from none.
        if samples < 2 or self.whole >= samples:
            return True
        return any(_may_be_samples(shape, samples) for shape in self.parts) or any(
            # Each turn of another loop takes the whole batch.
            count >= samples or length != samples
            for count, length in self.weights
        )


def find_pass_work(timeline: Timeline, trainer: Trainer, work: Work, calls_python: bool | None) -> PassWork | None:
    """The most of all looks between the training's updates; None where a pass may do what its graph does not tell.

    `calls_python`: whether autograd's engine does; None where that is not known.
    """
    looks, graphs = (looks_of_training(timeline, trainer, name) for name in ("graph_work", "graphs"))
    is_told = not work.modes and calls_python is False and (trainer.facts.world_size or 1) == 1
    if looks.is_empty() or (looks["unknown"].list.len() > 0).any() or not is_told or _has_larger(graphs, looks):
        return None
    return PassWork(
        usual_ns=_most(looks, USUAL_NS),
        most_ns=_most(looks, MOST_NS),
        whole=max(looks["whole"].to_list()),
        parts=tuple({tuple(shape) for row in looks["parts"].to_list() for shape in row}),
        weights=tuple({(count, length) for row in looks["weights"].to_list() for count, length in row}),
    )


def looks_of_training(timeline: Timeline, trainer: Trainer, name: str) -> pl.DataFrame:
    """Looks from its first update to its last one: other trainings of the process have other graphs."""
    of_training = pl.col("time_ns").is_between(int(trainer.update_start_ns[0]), int(trainer.update_end_ns[-1]))
    return timeline.table(name).filter(pl.col("process") == trainer.process, of_training)


def _has_larger(graphs: pl.DataFrame, looks: pl.DataFrame) -> bool:
    """Whether a graph is larger than each of those of which it was noted what they compute, or its size is not known."""
    sizes = graphs.select("nodes", "parameters", "values")
    noted = sizes.filter(graphs["time_ns"].is_in(looks["time_ns"].implode()))
    if any(sizes.null_count().row(0)):
        return True
    is_like = sizes.unique().to_numpy()[:, None] <= A_LITTLE * noted.to_numpy()[None]
    return not bool(np.all(np.any(np.all(is_like, axis=2), axis=1)))


def _most(looks: pl.DataFrame, costs_ns: tuple[float, ...]) -> float:
    counts = looks.select((pl.col("elements") - pl.col("dear")).clip(0), "dear", "scattered", "products").to_numpy()
    return float((counts * np.array(costs_ns)).sum(axis=1).max())


def _may_be_samples(shape: tuple[int, ...], samples: int) -> bool:
    """Whether a value of the shape is taken apart along its samples: that dimension is the last of it."""
    *before, length = shape
    return length == samples or (length % samples == 0 and samples not in before)
