"""Whether the training's inputs grow over the run: longer sequences, larger pictures, more samples, as in a curriculum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# Of fewer inputs nothing is said: ten in each third of the run.
FEWEST = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class InputSizes:
    """Bytes of one input of the model: means over the first and the last third of those seen."""

    first_bytes: float
    last_bytes: float

    @property
    def growth(self) -> float:
        """How many times as large as the first input the last one is, by a line through both; infinite where that begins at nothing."""
        beyond = (self.last_bytes - self.first_bytes) / 4
        first, last = self.first_bytes - beyond, self.last_bytes + beyond
        return max(last, 0.0) / first if first > 0 else math.inf


def find_input_sizes(timeline: Timeline, trainer: Trainer, producers: Sequence[int]) -> InputSizes | None:
    """By the batches that these processes collated, else by what the model was given; None where too few are known."""
    sizes = timeline.table("collates").filter(pl.col("process").is_in(list(producers)))
    if trainer.waits.is_empty() or sizes["bytes"].drop_nulls().is_empty():
        sizes = trainer.spans.filter(pl.col("kind") == "forward", pl.col("gradients").fill_null(True))
    known = sizes.sort("start_ns")["bytes"].drop_nulls().to_numpy()
    # Recordings of before say 0 of a forward.
    known = known[known > 0]
    if len(known) < FEWEST:
        return None
    first, _, last = np.array_split(known, 3)
    return InputSizes(first_bytes=float(first.mean()), last_bytes=float(last.mean()))
