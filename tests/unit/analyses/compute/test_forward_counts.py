"""Steps of unequal numbers of forwards: what these explain is no growth and no unevenness."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.compute.forward_counts import at_usual_counts
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trends import find_trend
from slowstep.parts import Part, PartKind

STEPS = 240
CHANCE = np.random.default_rng(5)
# Episodes that get longer as an agent learns.
COUNTS = np.round(np.linspace(10, 60, STEPS) * CHANCE.uniform(0.5, 1.5, STEPS)).astype(int)


def at_usual(ns: Floats, counts: np.ndarray = COUNTS) -> Floats:
    edges = np.arange(STEPS + 1) * 1_000_000
    starts = np.concatenate([edges[i] + np.arange(count) * 1000 for i, count in enumerate(counts)])
    trainer: Any = SimpleNamespace(training_forwards=pl.DataFrame({"start_ns": starts}))
    steps: Any = SimpleNamespace(edges_ns=edges, stretches=STEPS, excluded=np.zeros(STEPS, dtype=bool))
    steps.stretch_at = partial(Steps.stretch_at, steps)
    ledger = Ledger(parts=(Part("compute", PartKind.FORWARD),), ns=ns[np.newaxis], gap_stacks={}, timed={})
    return at_usual_counts(ledger, trainer, steps).ns[0]


def spread(ns: Floats) -> float:
    return float(ns.std() / ns.mean())


@pytest.mark.parametrize(("fixed_ns", "each_ns"), [(0, 1e6), (20e6, 1e6), (40e6, 0.7e6)])
def test_what_each_forward_takes_makes_steps_neither_grow_nor_vary(fixed_ns, each_ns):
    ns = (fixed_ns + each_ns * COUNTS) * CHANCE.normal(1, 0.03, STEPS)

    even = at_usual(ns)
    assert spread(ns) > 0.15
    assert spread(even) < 0.05
    assert even.mean() == pytest.approx(fixed_ns + each_ns * float(np.median(COUNTS)), rel=0.05)
    before, after = find_trend(ns), find_trend(even)
    assert before is not None
    assert after is not None
    assert before.growth_low > 0.1 * before.first
    assert abs(after.growth) < 0.1 * after.first


def test_what_grows_beside_the_forwards_is_left():
    counts = CHANCE.integers(10, 60, STEPS)

    trend = find_trend(at_usual(1e6 * counts * np.linspace(1, 3, STEPS), counts))
    assert trend is not None
    assert trend.growth_low > trend.first


def test_what_does_not_depend_on_the_forwards_stays_as_it_is():
    ns = CHANCE.normal(20e6, 1e6, STEPS)

    assert spread(at_usual(ns)) < 1.2 * spread(ns)
    falling = np.linspace(40e6, 20e6, STEPS)
    assert (at_usual(falling) == falling).all()


@pytest.mark.parametrize("counts", [np.full(STEPS, 3), np.where(np.arange(STEPS) % 40 == 39, 200, 1), np.arange(STEPS) % 2])
def test_an_end_of_an_epoch_or_a_validation_changes_nothing(counts):
    ns = CHANCE.normal(20e6, 1e6, STEPS) * np.maximum(counts, 1)

    assert (at_usual(ns, counts) == ns).all()
