"""Gradients that backward passes make of parameters which no optimizer holds, and how long that takes.

Known from graphs of backward passes that were looked at (frameworks/torch/inside/_autograd/unused_looks.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

import polars as pl

from slowstep.analyses.compute.pass_work import looks_of_training
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline


class Taker(Enum):
    """Whether somebody takes gradients that no optimizer does; values are those of recordings."""

    NONE_MADE = "none"
    BY_NOBODY = "kept"  # they are what backward has made of them, and their parameters stay as they are
    BY_SOMEBODY = "touched"  # or their parameters change


@dataclass(frozen=True, kw_only=True, slots=True)
class UnusedGradients:
    """Of the passes that make some. None is unknown."""

    taken: Taker
    name: str | None = None  # of the module that has most of the parameters, as the script calls it
    parameters: int = 0
    elements: int = 0
    comparisons: int = 0  # how often the parameters were found as they had been
    passes: float = 0.0  # per step
    passes_on: bool = False  # gradients that are of use go through what has these parameters
    operations: float | None = None  # share of the passes' nodes that lead to these parameters only
    alone_ns: float | None = None  # what a pass takes in those
    halves_ns: float | None = None  # and in operations that multiply for one gradient that is of use and one that is not

    @property
    def saved_ns(self) -> float | None:
        """What is made of no use per step: of an operation that multiplies twice, half."""
        return None if self.alone_ns is None else self.passes * (self.alone_ns + (self.halves_ns or 0.0) / 2)


def find_unused_gradients(timeline: Timeline, trainer: Trainer) -> UnusedGradients | None:
    """By the last look; None where nobody looked."""
    looks = looks_of_training(timeline, trainer, "graph_unused").sort("time_ns")
    if looks.is_empty():
        return None
    last = looks.row(-1, named=True)
    taken = next((each for each in Taker if each.value == last["state"]), None)
    if taken is None or taken is Taker.NONE_MADE:
        return None if taken is None else UnusedGradients(taken=taken)
    alike = looks.filter(pl.col("state") == last["state"])
    # Of gradients that somebody takes by now no pass may have been timed since.
    timed = alike if alike["alone_ns"].count() else looks
    walked = alike.filter(pl.col("nodes") > 0)
    return UnusedGradients(
        taken=taken,
        name=next((name for name in reversed(alike["name"].to_list()) if name), None),
        parameters=last["parameters"] or 0,
        elements=last["elements"] or 0,
        comparisons=max((last["rounds"] or 1) - 1, 0),
        passes=trainer.backwards_per_step * last["found"] / max(last["looks"], 1),
        passes_on=any(alike["passing"].to_list()),
        operations=_median((walked["alone"] / walked["nodes"]).to_list()),
        alone_ns=_median(timed["alone_ns"].to_list()),
        halves_ns=_median(timed["halves_ns"].to_list()),
    )


def _median(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
