"""Functions of the user's that run in what a framework names (callbacks, loggers, transforms): parts of their own in the ledger."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl

from slowstep.analyses.python.functions import Stacks, inside, is_library
from slowstep.analyses.python.span_names import names_kind
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import PartKind
from slowstep.shares import MOSTLY
from slowstep.stages import RESULT_STAGES
from slowstep.timeline.intervals import Ints, union

NamedLine = tuple[str, int]


def functions_in_callbacks(trainer: Trainer, stacks: Stacks) -> frozenset[NamedLine]:
    """File and first line of those that are such a callback, or stand mostly in one."""
    spans = trainer.spans.filter(pl.col("kind") == "span", pl.col("stage").fill_null("output").is_in([*RESULT_STAGES, "preprocess"]))
    # Metrics are named for the function that hands them over, which computes besides.
    metrics = [name for name in spans["name"].unique().drop_nulls() if names_kind(name, PartKind.METRICS)]
    spans = spans.filter(~pl.col("name").is_in(metrics, nulls_equal=True))
    placed = spans.filter(pl.col("file").is_not_null()).select("file", "line").unique()
    start, end = union(spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy())
    if not len(start):
        return frozenset()
    whole, within = _held(stacks, np.arange(len(stacks.stack))), _held(stacks, inside(stacks, start, end))
    # A function that is called elsewhere too belongs to where most of its stacks stand.
    mostly = {place for place, held in within.items() if held > MOSTLY * whole[place]}
    return frozenset(mostly | set(placed.iter_rows()))


def _held(stacks: Stacks, taken: Ints) -> dict[NamedLine, float]:
    """What each of the user's functions held of some stacks, those that it called included."""
    # A long run has a million stacks and a few thousand different ones.
    numbers, at = np.unique(stacks.stack[taken], return_inverse=True)
    weights = np.bincount(at, weights=stacks.weight_ns[taken], minlength=len(numbers))
    held: dict[NamedLine, float] = defaultdict(float)
    for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True):
        for place in {(frame.file, frame.first_line) for frame in stacks.frames.get(number, ()) if not is_library(frame)}:
            held[place] += weight
    return held
