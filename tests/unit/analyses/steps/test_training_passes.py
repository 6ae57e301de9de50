"""Which loaders feed a training, and how often each of them is read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.steps.training_passes import TrainingPasses

STEP_NS = 10_000_000


def _steps_per_batch(read: list[int]) -> float:
    """Of one batch a step, by the loaders that give them: each loader has the iterator of its number."""
    at = np.arange(len(read)) * STEP_NS
    waits = pl.DataFrame({"iterator": read, "start_ns": at, "end_ns": at + 1, "exhausted": False, "failed": False})
    passes = TrainingPasses(loader_of={i: i for i in read}, loaders=frozenset(read), aside=frozenset())
    return passes.steps_per_batch(waits, at + STEP_NS // 2)


@pytest.mark.parametrize(("read", "steps"), [([1] * 40, 1.0), ([1, 2] * 20, 2.0), ([1, 1, 1, 2] * 10, 4.0), ([1] * 30 + [2] * 30, 1.0)])
def test_steps_are_counted_from_one_batch_to_the_next_of_the_loader_that_is_read_least(read, steps):
    assert _steps_per_batch(read) == pytest.approx(steps)
