"""The graphs of backward passes over the run: whether they become larger, by what a step makes or by what earlier steps have left in them.

A step whose graph is larger does more. A graph that holds what earlier steps have made is one that somebody keeps. Where more parameters
get a gradient than before, the model grows by design: layers begin to learn one after another, or are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.trends import BLOCKS, DEVIATIONS, STEPS_PER_BLOCK, inflation
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Graphs:
    """The graphs that were looked at in the window, in order, after the last one before it; NaN is unknown."""

    step: Ints  # of the window, in which it was; of the one before it -1
    nodes: Floats
    parameters: Floats  # elements of the parameters that get a gradient
    values: Floats  # elements of all that the operations gave
    kept: Floats  # nodes that earlier steps have made


_NONE = np.zeros(0)
NO_GRAPHS = Graphs(step=np.zeros(0, np.int64), nodes=_NONE, parameters=_NONE, values=_NONE, kept=_NONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphGrowth:
    """The largest graph of the first half of the run, and of the second. None is unknown."""

    nodes: tuple[float, float]
    parameters: tuple[float, float] | None
    kept: tuple[float, float] | None
    # What a part of the step grows at least over the run while the same parameters get a gradient, ns.
    same_parameters_low_ns: float | None


def find_graphs(timeline: Timeline, trainer: Trainer, steps: Steps) -> Graphs:
    """The looks of the training process."""
    rows = timeline.table("graphs").filter(pl.col("process") == trainer.process).sort("time_ns")
    stretch, inside = steps.step_at(rows["time_ns"].to_numpy())
    step = np.where(stretch < 0, -1, (np.cumsum(~steps.excluded) - 1)[np.clip(stretch, 0, steps.stretches - 1)])
    before = int((stretch < 0).sum())
    if before:
        inside[before - 1] = True
    floats = rows.select(pl.col("nodes", "parameters", "values", "kept").cast(pl.Float64).fill_null(math.nan))
    return Graphs(step=step[inside], **{name: floats[name].to_numpy()[inside] for name in floats.columns})


def find_graph_growth(graphs: Graphs, part_ns: Floats) -> GraphGrowth | None:
    """How graphs grow over the run, and the time per step of a part beside that; None where none was looked at in either half."""
    nodes, parameters, kept = (_halves(graphs, values, len(part_ns)) for values in (graphs.nodes, graphs.parameters, graphs.kept))
    if nodes is None:
        return None
    return GraphGrowth(nodes=nodes, parameters=parameters, kept=kept, same_parameters_low_ns=_growth_within_groups(graphs, part_ns))


def work_in_steps(graphs: Graphs, at: Ints, count: int) -> float | None:
    """How many times as many values the graphs of the steps `at` hold as those of the others, of `count`; None where either were not seen.

    Of a step with several passes the largest one tells.
    """
    known = ~np.isnan(graphs.values) & (graphs.step >= 0)
    largest = np.zeros(count)
    np.maximum.at(largest, graphs.step[known], graphs.values[known])
    among = np.zeros(count, np.bool_)
    among[at] = True
    seen = largest > 0
    if not (seen & among).any() or not (seen & ~among).any():
        return None
    return float(np.median(largest[seen & among]) / np.median(largest[seen & ~among]))


def _halves(graphs: Graphs, values: Floats, count: int) -> tuple[float, float] | None:
    """The largest, for passes of several kinds may take turns."""
    known, late = ~np.isnan(values), graphs.step >= count / 2
    first, last = values[known & ~late], values[known & late]
    return (float(first.max()), float(last.max())) if len(first) and len(last) else None


def _growth_within_groups(graphs: Graphs, part_ns: Floats) -> float | None:
    """A least-squares slope through the medians of blocks of steps, of which each group with the same parameters has a level of its own."""
    blocks = [_blocks(part_ns, group) for group in _with_same_parameters(graphs, len(part_ns))]
    at = np.concatenate([np.zeros(0), *(steps - steps.mean() for steps, _ in blocks)])
    levels = np.concatenate([np.zeros(0), *(medians - medians.mean() for _, medians in blocks)])
    freedom = len(at) - len(blocks) - 1
    # As many degrees of freedom as DEVIATIONS is for.
    if freedom < BLOCKS - 2:
        return None
    spread = float((at**2).sum())
    slope = float((at * levels).sum()) / spread
    residual = levels - slope * at
    error = math.sqrt(float((residual**2).sum()) / freedom * inflation(residual) / spread)
    return (slope - DEVIATIONS * error) * len(part_ns)


def _blocks(part_ns: Floats, group: Ints) -> tuple[Floats, Floats]:
    """The middles of blocks of steps, and medians over them."""
    blocks = np.array_split(group, len(group) // STEPS_PER_BLOCK)
    return np.array([block.mean() for block in blocks]), np.array([np.median(part_ns[block]) for block in blocks])


def _with_same_parameters(graphs: Graphs, count: int) -> list[Ints]:
    """Steps between looks that saw as many parameters, at least two blocks of them; which those between others had is not known.

    Passes of several kinds may take turns, hence the most that were seen up to then.
    """
    known = ~np.isnan(graphs.parameters)
    looks, most = graphs.step[known], np.maximum.accumulate(graphs.parameters[known])
    if not len(looks):
        return []
    steps = np.arange(count)
    after = np.searchsorted(looks, steps)
    before: NDArray[np.int64] = np.searchsorted(looks, steps, side="right") - 1
    sure = (before >= 0) & (after < len(looks))
    sure[sure] = most[before[sure]] == most[after[sure]]
    level = most[np.clip(before, 0, None)]
    groups = (steps[sure & (level == each)] for each in np.unique(most))
    return [group for group in groups if len(group) >= 2 * STEPS_PER_BLOCK]
